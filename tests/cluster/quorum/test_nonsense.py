"""Invalid messages: the replica survives requests and responses with random numbers, by seed."""

from __future__ import annotations

import random

import pytest

from tests.cluster.quorum.script import ScriptRunner

STARTS = [
    "start voters=1",
    "start voters=1,2,3 log=1,1,2 state=2,-1,-1",
    "start voters=1,2,3 log=1,1,2 state=2,3,-1",
    "start voters=1,2,3 static log=1,1,2 state=2,1,1",
    "start voters=1,2,3 observer bootstrap=2 log=1,2 state=2,3,-1 auto-join",
    "start voters=1,2,3 snapshot=10@2 log=2,2 state=3,-1,1",
]


def nonsense(random_source: random.Random, runner: ScriptRunner) -> str:
    """Return a command with numbers near the valid ones."""
    near = lambda number: max(0, number + random_source.choice([-1, 0, 0, 0, 1, 2]))  # noqa: E731
    node, epoch = random_source.choice([1, 2, 3, 4]), near(runner.quorum.epoch)
    end = f"{near(runner.log.end_offset)}@{near(runner.log.last_epoch)}"
    known, wait = near(runner.log.end_offset), random_source.choice([0, 500])
    disk = random_source.choice(["", " directory=other", " my-directory=other"])
    commands = [
        f"vote {node} epoch={epoch} last={end}{disk}",
        f"vote {node} epoch={epoch} last={end} pre{disk}",
        f"begin {node} epoch={epoch}{disk}",
        f"end {node} epoch={epoch} successors=1,2",
        f"fetch {node} epoch={epoch} from={end} wait={wait} known={known}{disk}",
        f"fetch-snapshot {node} epoch={epoch} snapshot={end} position={random_source.choice([0, 5, 700])}",
        f"add {node}{disk}",
        f"remove {node}{disk}",
        f"update {node} epoch={epoch} port=9{disk}",
        "describe",
        f"wait {random_source.choice([10, 500, 2000])}",
        "append 1" if runner.quorum.is_leader else "wait 1",
        "resign",
    ]
    if runner.asked:
        asked = random_source.choice(runner.asked)
        what = random_source.choice(
            ["granted", "rejected", f"leader={node}", f"epoch={epoch} leader={node}", "error=INVALID_REQUEST"]
        )
        more = random_source.choice(
            ["", f"records={epoch}", f"snapshot={end}", "bytes=5/9", "bytes=9/9", "top=UNKNOWN_SERVER_ERROR"]
        )
        commands += [f"reply {asked} {what} {more}"] * 6 + [f"unreachable {asked}"]
    return random_source.choice(commands)


@pytest.mark.parametrize("seed", range(40))
def test_a_replica_survives_random_messages(seed: int) -> None:
    random_source = random.Random(seed)
    runner = ScriptRunner()
    history = [random_source.choice(STARTS)]
    runner.run(history[0])
    epoch = 0
    for _ in range(60):
        history.append(nonsense(random_source, runner))
        try:
            runner.run(history[-1])
        except Exception as error:
            raise AssertionError("\n> ".join(["", *history])) from error
        assert runner.quorum.epoch >= epoch
        epoch = runner.quorum.epoch
