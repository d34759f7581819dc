"""Row about share groups (KIP-932): Kafka's ShareConsumerPerformance with one consumer, and with ten."""

from collections.abc import Mapping

from benchmarks.brokers import Run
from benchmarks.rows.perf import produce, tool
from benchmarks.topics import delete_topic, make_topic
from tests.support.raw_client import RawClient
from tests.support.requests import group_configs

RECORDS = 200_000
WARM_UP_RECORDS = 50_000
RECORD_BYTES = 100
CONSUMERS = (1, 10)


def share_groups(run: Run) -> Mapping[str, float]:
    """Measure records a second that are acquired and acknowledged."""
    figures: dict[str, float] = {}
    _consume(run, "warm-up", WARM_UP_RECORDS, 1)
    for consumers in CONSUMERS:
        before = run.cpu_seconds()
        rate = _consume(run, f"shared-{consumers}", RECORDS, consumers)
        figures[f"share group of {consumers}, {RECORD_BYTES} B, records/s"] = rate
        figures[f"CPU s per million records, share group of {consumers}"] = (run.cpu_seconds() - before) / RECORDS * 1e6
    return figures


def _consume(run: Run, topic: str, records: int, consumers: int) -> float:
    """Consume a topic of records from its start, in a group of its name; return records per second."""
    make_topic(run, topic)
    produce(run, topic, RECORD_BYTES, records, ())
    _start_at_the_beginning(run, topic)
    output = tool(
        "ShareConsumerPerformance",
        *("--bootstrap-server", run.broker.bootstrap, "--topic", topic, "--group", topic),
        *("--num-records", records, "--threads", consumers, "--timeout", 60_000),
    )
    names, values = ([field.strip() for field in line.split(",")] for line in output.strip().splitlines()[-2:])
    figures = dict(zip(names, values, strict=True))
    assert int(figures["data.consumed.in.nMsg"]) >= records, output
    delete_topic(run, topic)
    return float(figures["nMsg.sec"])


def _start_at_the_beginning(run: Run, group: str) -> None:
    client = RawClient(run.broker.bootstrap)
    try:
        answer = client.ask(group_configs(group, {"share.auto.offset.reset": "earliest"}), 1)
    finally:
        client.close()
    assert [each.error_code for each in answer.responses] == [0]
