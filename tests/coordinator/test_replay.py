"""Replay: a restarted coordinator loads from its log the state that the previous one had written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from tests.coordinator.group_script import ScriptRunner
from tests.virtual_loop import virtual_loop

NAMES = st.sampled_from(["a", "b", "c"])
PARTITIONS = st.sampled_from(["t-0", "t-1", "u-0"])
COMMANDS = st.one_of(
    st.builds("join {} version=3 rebalance={}".format, NAMES, st.sampled_from([500, 20000])),
    st.builds("join {} instance={}".format, st.sampled_from(["s1", "s2"]), st.sampled_from(["i", "j"])),
    st.builds("join {} version=3 protocols=roundrobin,range".format, NAMES),
    st.builds("sync {} a=one b=two s1=three".format, st.sampled_from(["a", "b", "c", "s1", "s2"])),
    st.builds("heartbeat {}".format, NAMES),
    st.builds("leave {}".format, NAMES),
    st.just("leave instance:i"),
    st.builds("commit {} {}={}".format, NAMES, PARTITIONS, st.integers(0, 9)),
    st.builds("commit - {}={}".format, PARTITIONS, st.integers(0, 9)),
    st.builds("delete-offsets {}".format, PARTITIONS),
    st.just("delete-group"),
    st.sampled_from(["reject-appends", "allow-appends"]),
    st.builds("wait {}".format, st.sampled_from([1, 1000, 10000, 70000])),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(COMMANDS, max_size=25))
def test_replay_gives_what_was_written(commands: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory, virtual_loop() as loop:
        runner = ScriptRunner(Path(directory), loop)
        config = "config initial_rebalance_delay_ms=1 offsets_retention_ms=60000 retention_check_interval_ms=15000"
        for command in [config, *commands, "allow-appends"]:
            loop.run_until_complete(runner.run(command))
            check_invariants(runner)
        before = written_state(runner, with_empty="reject-appends" not in commands)
        loop.run_until_complete(runner.run("restart"))
        after = written_state(runner, with_empty=True)
        assert {name: after.get(name) for name in before} == before
        check_invariants(runner)
        runner.stop()


def check_invariants(runner: ScriptRunner) -> None:
    if runner.is_started:
        for group in runner.world.group_machine().groups.values():
            group.check_invariants()


def written_state(runner: ScriptRunner, *, with_empty: bool) -> dict[str, object]:
    """Return all offsets, and the groups whose current state is in the log.

    A rebalancing group is restored in its last stable or empty state. If the log rejected the record of an empty group,
    the group is restored with its old members, whose sessions then expire.
    """
    machine = runner.world.group_machine()
    state: dict[str, object] = {"offsets": {name: machine.offsets.by_topic(name) for name in machine.groups}}
    for name, group in machine.groups.items():
        assert isinstance(group, ClassicGroup)
        if group.state is GroupState.STABLE or (with_empty and group.is_empty):
            state[name] = (
                group.state,
                group.generation_id,
                group.protocol_type if group.generation_id else None,
                group.protocol_name,
                group.leader_id,
                group.static_members,
                group.subscribed_topics if group.generation_id else None,
                {member.member_id: (member.assignment, member.session_timeout_ms) for member in group.members.values()},
            )
    return state
