"""kcat processes that keep running over a restart of the broker."""

import pytest

from compat_tests.confluent_kafka_client.client import create_topic, offsets_of, producer, send_all
from compat_tests.harness.payloads import numbered
from compat_tests.kcat.test_groups import member
from compat_tests.kcat.tool import FORMAT, SECONDS, consume, kcat_command, running

pytestmark = pytest.mark.restart
BACK_OFF = ("-E", "-X", "reconnect.backoff.max.ms=500")


def reader(bootstrap, topic):
    return kcat_command(bootstrap, *BACK_OFF, "-C", "-q", "-u", "-t", topic, "-o", "beginning", "-f", FORMAT)


@pytest.mark.short
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_producer_and_consumer_continue_over_a_restart(broker, topic, tmp_path, clean):
    create_topic(broker.bootstrap, topic)
    expected = [b"%d %s" % (number, b"x" * 100) for number in range(600)]
    flags = ("-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "batch.num.messages=20")
    with running(tmp_path / "reader", reader(broker.bootstrap, topic)) as reading:
        with running(tmp_path / "writer", kcat_command(broker.bootstrap, *BACK_OFF, *flags)) as writing:
            writing.process.stdin.write(b"".join(line + b"\n" for line in expected[:300]))
            writing.process.stdin.flush()
            reading.wait_for(200)  # kcat keeps the last records in its input buffer
            broker.restart(clean=clean)
            writing.process.stdin.write(b"".join(line + b"\n" for line in expected[300:]))
            writing.process.stdin.close()
            assert writing.process.wait(SECONDS) == 0, writing.stderr.read_text()
        received = reading.wait_for(600)
    assert [each.record.value for each in received] == expected
    assert [each.record.value for each in consume(broker.bootstrap, topic)] == expected


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_committed_offsets_survive_a_restart(broker, topic, group, tmp_path, clean):
    create_topic(broker.bootstrap, topic)
    offsets_of(send_all(producer(broker.bootstrap), topic, numbered(30)))
    with running(tmp_path / "first", member(broker.bootstrap, group, topic)) as first:
        first.wait_for(30)
    broker.restart(clean=clean)
    offsets_of(send_all(producer(broker.bootstrap), topic, numbered(3, start=30)))
    with running(tmp_path / "second", member(broker.bootstrap, group, topic)) as second:
        assert [each.record.value for each in second.wait_for(3)] == [b"30", b"31", b"32"]
