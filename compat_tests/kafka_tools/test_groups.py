"""kafka-consumer-groups and kafka-groups, with and without members; resets of every kind."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.confluent_kafka_client.client import offsets_of, producer, send_all
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_tools.comparing import only_lines_with

GROUPS = "kafka-consumer-groups"
COUNTS = (2, 3)


@pytest.fixture
def consumed(both, new_topic, group):
    """Write two and three records into two partitions and commit them in a group, which has no member afterwards."""
    name = new_topic(2)
    for side in both.sides:
        sender = producer(side.broker.bootstrap)
        for partition, count in enumerate(COUNTS):
            offsets_of(send_all(sender, name, numbered(count), partition=partition))
        committer = Consumer({"bootstrap.servers": side.broker.bootstrap, "group.id": group})
        ends = [TopicPartition(name, partition, count) for partition, count in enumerate(COUNTS)]
        committer.commit(offsets=ends, asynchronous=False)
        committer.close()
    return name


def rows(ran):
    return [line.split() for line in ran.lines if line.strip()][1:]


def offsets(ran):
    """Return the new offsets by partition from a reset's output, without the warnings before them."""
    return {int(row[2]): int(row[3]) for row in rows(ran) if len(row) == 4 and row[3].isdigit()}


@pytest.mark.short
def test_a_group_without_members_is_listed_and_described(both, consumed, group):
    assert both.run(GROUPS, "--list", change=only_lines_with(group)).lines.count(group) == 1
    described = both.run(GROUPS, "--describe", "--group", group)
    assert sum(int(row[3]) for row in rows(described)) == 5
    assert {row[5] for row in rows(described)} == {"0"}
    assert "no active members" in described.errors


def test_a_group_without_members_in_every_view(both, consumed, group):
    for choice in (("--state",), ("--state", "Empty"), ("--type",), ("--type", "classic")):
        listed = both.run(GROUPS, "--list", *choice, change=only_lines_with(group))
        assert group in listed.output
    assert group not in both.run(GROUPS, "--list", "--state", "Stable", change=only_lines_with(group)).output
    state = both.run(GROUPS, "--describe", "--group", group, "--state")
    assert rows(state)[0][-2:] == ["Empty", "0"]
    assert rows(both.run(GROUPS, "--describe", "--group", group, "--members", "--verbose")) == []
    verbose = both.run(GROUPS, "--describe", "--group", group, "--offsets", "--verbose")
    assert len(rows(verbose)) == 2
    for tool_arguments in (("--list",), ("--list", "--group-type", "classic"), ("--list", "--consumer")):
        assert group in both.run("kafka-groups", *tool_arguments, change=only_lines_with(group)).output


RESETS = (
    ("--to-earliest", lambda end: 0),
    ("--to-latest", lambda end: end),
    ("--shift-by -1", lambda end: end - 1),
    ("--to-current", lambda end: end - 1),
    ("--shift-by 9", lambda end: end),
    ("--to-offset 1", lambda end: 1),
    ("--to-offset 99", lambda end: end),
    ("--to-datetime 2020-01-01T00:00:00.000", lambda end: 0),
    ("--to-datetime 2200-01-01T00:00:00.000", lambda end: end),
    ("--by-duration P9999D", lambda end: 0),
)


def test_offsets_are_reset_in_every_way(both, consumed, group):
    for how, moved in RESETS:
        reset = ("--reset-offsets", "--group", group, "--topic", consumed, *how.split(), "--execute")
        expected = {partition: moved(end) for partition, end in enumerate(COUNTS)}
        assert offsets(both.run(GROUPS, *reset)) == expected, how
    now = both.run(GROUPS, "--describe", "--group", group)
    assert {int(row[2]): int(row[3]) for row in rows(now)} == expected


def test_offsets_are_exported_and_read_from_a_file(both, consumed, group, tmp_path):
    reset = (GROUPS, "--reset-offsets", "--group", group)
    exported = both.run(*reset, "--topic", f"{consumed}:0", "--to-earliest", "--export", "--dry-run")
    assert exported.output.strip() == f"{consumed},0,0"
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.output.strip() + "\n")
    assert offsets(both.run(*reset, "--from-file", str(plan), "--execute")) == {0: 0}
    everything = both.run(*reset, "--all-topics", "--to-current", "--dry-run")
    assert offsets(everything)[0] == 0


def test_offsets_of_a_new_group_and_of_no_topic(both, consumed, unique):
    reset = (GROUPS, "--reset-offsets", "--group", unique("other"), "--to-earliest")
    assert offsets(both.run(*reset, "--topic", consumed, "--execute")) == {0: 0, 1: 0}
    rejected = both.run(*reset, "--topic", f"{consumed}-none", "--dry-run")
    assert "does not host this topic-partition" in rejected.output


def test_offsets_and_groups_are_deleted(both, consumed, group):
    delete = (GROUPS, "--delete-offsets", "--group", group, "--topic")
    assert "Successful" in both.run(*delete, f"{consumed}:0").output
    for unknown in (f"{consumed}:7", f"{consumed}-none"):
        assert "UnknownTopicOrPartition" in both.run(*delete, unknown).output
    assert [row[2] for row in rows(both.run(GROUPS, "--describe", "--group", group))] == ["1"]
    assert "was successful" in both.run(GROUPS, "--delete", "--group", group).output
    assert "GroupIdNotFoundException" in both.run(GROUPS, "--delete", "--group", group).output
    assert "not found" in both.run(GROUPS, "--describe", "--group", group).output


def test_a_group_with_a_member(both, consumed, unique, tmp_path):
    group = unique("active")
    member = ("--topic", consumed, "--group-id", group, "--reset-policy", "earliest", "--max-messages", "1000")

    def settled():
        read = [side.tools.run(GROUPS, "--describe", "--group", group, "--offsets") for side in both.sides]
        return all([row[5] for row in rows(ran)] == ["0", "0"] for ran in read)

    with both.running(tmp_path, "kafka-verifiable-consumer", *member, until="records_consumed"):
        eventually(settled, "the member has committed", 30)
        for view in (("--members",), ("--members", "--verbose"), ("--offsets",), ("--state", "--verbose"), ()):
            assert group in both.run(GROUPS, "--describe", "--group", group, *view).output
        members = both.run(GROUPS, "--describe", "--group", group, "--members")
        assert rows(members)[0][-1] == "2"
        state = both.run(GROUPS, "--describe", "--group", group, "--state")
        assert rows(state)[0][-3:] == ["range", "Stable", "1"]
        assert "not empty" in both.run(GROUPS, "--delete", "--group", group).output
        rejected = both.run(
            GROUPS, "--reset-offsets", "--group", group, "--topic", consumed, "--to-earliest", "--execute"
        )
        assert "active" in rejected.said
        deleted = both.run(GROUPS, "--delete-offsets", "--group", group, "--topic", consumed)
        assert "GroupSubscribedToTopic" in deleted.output
    assert "no active members" in both.run(GROUPS, "--describe", "--group", group, "--state").errors
