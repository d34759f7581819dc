"""Several kcat processes in one consumer group."""

from contextlib import ExitStack

import pytest

from compat_tests.confluent_kafka_client.client import create_topic, offsets_of, producer, send_all
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.kcat.tool import FORMAT, consume, kcat_command, running

QUICK = ("-X", "heartbeat.interval.ms=200", "-X", "session.timeout.ms=6000", "-X", "auto.offset.reset=earliest")


def member(bootstrap, group, topic, *arguments):
    return kcat_command(bootstrap, "-G", group, *QUICK, "-u", "-f", FORMAT, *arguments, topic)


def shared(members):
    """Return the number of partitions of each member, once all four partitions are assigned without overlap."""
    assigned = [each.assigned() for each in members]
    if None in assigned or len(frozenset().union(*assigned)) != sum(map(len, assigned)):
        return None
    return [len(each) for each in assigned]


@pytest.mark.short
def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(bootstrap, topic, group, tmp_path):
    create_topic(bootstrap, topic, partitions=4)
    with running(tmp_path / "first", member(bootstrap, group, topic)) as first:
        eventually(lambda: shared([first]) == [4], "all partitions")
        with running(tmp_path / "second", member(bootstrap, group, topic)) as second:
            eventually(lambda: shared([first, second]) == [2, 2], "half of the partitions each", 30)
            sender = producer(bootstrap)
            for partition in range(4):
                offsets_of(send_all(sender, topic, numbered(5), partition=partition))
            first.wait_for(10)
            second.wait_for(10)
        eventually(lambda: shared([first]) == [4], "all partitions again", 30)


def test_a_new_member_resumes_at_the_committed_offset(bootstrap, topic, group, tmp_path):
    create_topic(bootstrap, topic)
    offsets_of(send_all(producer(bootstrap), topic, numbered(30)))
    with running(tmp_path / "first", member(bootstrap, group, topic)) as first:
        assert len(first.wait_for(30)) == 30
    offsets_of(send_all(producer(bootstrap), topic, numbered(5, start=30)))
    with running(tmp_path / "second", member(bootstrap, group, topic)) as second:
        assert [each.record.value for each in second.wait_for(5)] == [b"30", b"31", b"32", b"33", b"34"]
    assert len(consume(bootstrap, topic)) == 35


@pytest.mark.parametrize("strategy", ["roundrobin", "cooperative-sticky"])
def test_members_of_every_strategy_read_everything_once(bootstrap, topic, group, tmp_path, strategy):
    create_topic(bootstrap, topic, partitions=4)
    flags = ("-X", f"partition.assignment.strategy={strategy}")
    with ExitStack() as stack:
        members = [stack.enter_context(running(tmp_path / "0", member(bootstrap, group, topic, *flags)))]
        eventually(members[0].assigned, "a first share", 30)
        members.append(stack.enter_context(running(tmp_path / "1", member(bootstrap, group, topic, *flags))))
        eventually(members[1].assigned, "a second share", 30)
        sender = producer(bootstrap)
        for partition in range(4):
            offsets_of(send_all(sender, topic, numbered(10), partition=partition))

        def everything():
            got = [(each.partition, each.offset) for one in members for each in one.received()]
            return sorted(set(got)) == [(partition, offset) for partition in range(4) for offset in range(10)] and got

        assert len(eventually(everything, "all records", 30)) == 40
