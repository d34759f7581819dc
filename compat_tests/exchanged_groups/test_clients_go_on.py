"""Stock consumers of classic, consumer and share groups go on while the brokers of a directory are exchanged."""

import pytest

from compat_tests.confluent_kafka_client.client import create_topic, offsets_of, producer, send_all
from compat_tests.exchanged_groups.directory import Exchanged
from compat_tests.exchanged_groups.readers import LASTING, Reader, ShareReader, reading
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.share_consumers.sharing import configure

TOPIC = "live"
PARTITIONS = 2
BATCH = 20
SECONDS = 60


@pytest.mark.parametrize("kafka_first", [True, False], ids=["kafka-first", "tested-first"])
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_consumers_read_on_without_a_rebalance(tested, tmp_path, clean, kafka_first):
    kinds = ("kafka", tested, "kafka") if kafka_first else (tested, "kafka", tested)
    exchanged = Exchanged(tmp_path / "home")
    bootstrap = exchanged.serve(kinds[0]).bootstrap
    try:
        create_topic(bootstrap, TOPIC, PARTITIONS)
        configure(bootstrap, "share")
        consumers = [
            Reader(bootstrap, "classic", TOPIC, {"group.instance.id": "one", **LASTING}),
            Reader(bootstrap, "consumer", TOPIC, {"group.protocol": "consumer"}),
        ]
        readers = [*consumers, ShareReader(bootstrap, "share", TOPIC, {})]
        client = producer(bootstrap, enable_idempotence=True)
        with reading(readers):
            for stage, kind in enumerate(kinds):
                if stage:
                    exchanged.end(clean=clean)
                    exchanged.serve(kind)
                for partition in range(PARTITIONS):
                    sent = offsets_of(send_all(client, TOPIC, numbered(BATCH), partition))
                    assert sent == list(range(BATCH * stage, BATCH * (stage + 1)))
                count = PARTITIONS * BATCH * (stage + 1)
                for number, each in enumerate(readers):
                    eventually(
                        lambda each=each, count=count: each.problem or len(each.read) >= count,
                        f"{count} records of reader {number}",
                        SECONDS,
                    )
                    assert each.problem is None, each.problem
            assert [each.assignments for each in consumers] == [[PARTITIONS]] * 2
        places = [(partition, offset) for partition in range(PARTITIONS) for offset in range(BATCH * len(kinds))]
        assert [sorted(each.read.elements()) for each in readers] == [places] * 3
    finally:
        exchanged.end(clean=False)
