"""Random heartbeats of streams groups: invariants hold, and a restarted coordinator loads the same state from its log.

Clients behave as Kafka Streams does: a member reports what it was assigned, and rejoins when it has been fenced.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.coordinator.group.streams import topology
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from tests.coordinator.streams_script import ScriptRunner
from tests.coordinator.test_replay_of_compacted_logs import compact_offsets
from tests.coordinator.test_scripts import run_script
from tests.virtual_loop import virtual_loop

PROCESSES = {"a": "p", "b": "p", "c": "q", "d": "r"}
NAMES = st.sampled_from(list(PROCESSES))
START = (
    "setting group.streams.initial.rebalance.delay.ms=100 group.streams.assignment.interval.ms=0",
    "setting group.streams.num.standby.replicas=1",
    "create-topic log=3 s=3",
    "topology 0=s/!log 1=t",
    "allow-appends",
)
COMMANDS = st.one_of(
    NAMES.map("beat {}".format),
    NAMES.map("beat {}".format),
    NAMES.map("beat {}".format),
    NAMES.map(lambda name: f"beat {name} join process={PROCESSES[name]}"),
    NAMES.map(lambda name: f"beat {name} join process={PROCESSES[name]} endpoint={name}:1"),
    NAMES.map("leave-group {}".format),
    st.integers(0, 2).map("setting group:streams.num.standby.replicas={}".format),
    st.sampled_from([1, 50, 1000, 20_000, 46_000]).map("wait {}".format),
    st.integers(1, 5).map("grow-topic t={}".format),
    st.sampled_from(["reject-appends", "allow-appends", "delete-topic s", "create-topic s=3", "delete-group"]),
)


def state_of(runner: ScriptRunner) -> dict[str, object]:
    """Return all that the records of the group describe."""
    groups = runner.world.group_machine().groups
    assert all(isinstance(group, StreamsGroup) for group in groups.values())
    return {
        group_id: (
            group.epoch,
            group.metadata_hash,
            group.validated_topology_epoch,
            dict(group.assignment_configs),
            group.topology,
            group.target_epoch,
            dict(group.targets),
            dict(group.members),
            group.state,
        )
        for group_id, group in groups.items()
        if isinstance(group, StreamsGroup)
    }


def check_invariants(runner: ScriptRunner) -> None:
    for group in runner.world.group_machine().groups.values():
        group.check_invariants()


@pytest.mark.parametrize("is_compacted", [False, True])
@settings(max_examples=30, deadline=None)
@given(commands=st.lists(COMMANDS, max_size=40))
def test_replay_gives_what_was_written(is_compacted: bool, commands: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory, virtual_loop() as loop:
        runner = ScriptRunner(Path(directory), loop)
        for command in (*START, *commands, "allow-appends"):
            for line in loop.run_until_complete(runner.run(command)):
                if "FENCED_MEMBER_EPOCH" in line or "UNKNOWN_MEMBER_ID" in line:
                    runner.fenced(line.partition(":")[0])
            check_invariants(runner)
        before = state_of(runner)
        if is_compacted:
            compact_offsets(runner)
        loop.run_until_complete(runner.run("restart"))
        assert state_of(runner) == before
        check_invariants(runner)
        runner.stop()


@settings(max_examples=20, deadline=None)
@given(commands=st.lists(COMMANDS, max_size=30))
def test_groups_become_stable(commands: list[str]) -> None:
    """Let all members reach their targets with some heartbeats, after random events."""
    with tempfile.TemporaryDirectory() as directory, virtual_loop() as loop:
        runner = ScriptRunner(Path(directory), loop)
        topics = ("delete-topic s", "create-topic s=3", "wait 46000")
        for command in (*START, *(each for each in commands if "topic" not in each), "allow-appends", *topics):
            loop.run_until_complete(runner.run(command))
        for name, process in PROCESSES.items():
            loop.run_until_complete(runner.run(f"beat {name} join process={process}"))
        loop.run_until_complete(runner.run("wait 200"))
        for _ in range(12):
            for name in PROCESSES:
                loop.run_until_complete(runner.run(f"beat {name}"))
        assert loop.run_until_complete(runner.run("streams"))[0].startswith("Stable")
        check_invariants(runner)
        runner.stop()


@pytest.mark.parametrize(
    "commands",
    [
        ("commit - t-0=5", "beat a"),
        ("join x version=3", "wait 3100", "sync x x=one", "leave x", "beat a"),
        ("beat a", "leave-group a", "join x version=3", "wait 3100", "sync x x=one", "leave x", "beat b join"),
        ("beat a", "beat b", "leave-group a", "leave-group b", "beat c"),
        ("beat a", "leave-group a", "delete-group", "commit - t-0=5", "beat c"),
    ],
)
def test_a_group_that_was_of_another_kind_is_loaded_after_compaction(commands: tuple[str, ...], tmp_path: Path) -> None:
    """Compaction removes the earlier records, and later the tombstones between them."""
    with virtual_loop() as loop:
        runner = ScriptRunner(tmp_path, loop)
        for command in (*START, *commands):
            loop.run_until_complete(runner.run(command))
        before = state_of(runner)
        assert before
        for _ in range(2):
            compact_offsets(runner)
            loop.run_until_complete(runner.run("restart"))
            assert state_of(runner) == before
        runner.stop()


def test_a_topology_that_is_written_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(_value: object) -> None:
        raise ValueError("the replay computes the topology again")

    monkeypatch.setattr(topology, "topology_of", compute)
    seen = run_script("streams", "> topology 0=t/!log\n> beat a owned=-\n", tmp_path)
    assert "a: epoch 1 nothing" in seen


def test_a_join_that_is_not_stored_leaves_no_endpoint(tmp_path: Path) -> None:
    with virtual_loop() as loop:
        runner = ScriptRunner(tmp_path, loop)
        for command in (*START, "beat a endpoint=a:1", "reject-appends", "beat b endpoint=b:1"):
            answered = loop.run_until_complete(runner.run(command))
        assert answered == ["b: COORDINATOR_NOT_AVAILABLE"]
        group = runner.world.group_machine().groups["g"]
        assert isinstance(group, StreamsGroup)
        assert group.endpoint_partitions.keys() <= {"a"}
        runner.stop()
