"""List of aborted transactions in a fetch: limited by the bytes read, and included in their count."""

from __future__ import annotations

from kwire.cluster.partitions.partition import READ_COMMITTED
from kwire.log.lookup import end_offset_of
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.server.fetching.aborted_lists import ABORTED_TRANSACTION_BYTES
from kwire.server.fetching.unready_logs import UnreadyLogs
from tests.log.support import batch, marker
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic, fetch
from tests.support.running import RunningBroker

ABORTS = 3000


def abort_many(broker: RunningBroker, topic: str, index: int = 0) -> None:
    """Abort transactions of one record each; each takes two offsets."""

    def append() -> None:
        partition = broker.server.services.partitions.find(topic, index)
        for number in range(ABORTS):
            sent = batch(b"v", producer_id=number, producer_epoch=0, sequence=0, transactional=True)
            partition.append(sent, -1)
            partition.append_marker(bytes(marker(number, 0, commit=False)), number, 0, transaction_version=0)

    broker.call(append)


def test_aborted_transactions_are_listed_up_to_the_end_of_the_read(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    abort_many(broker, topic)
    offset = reads = 0
    while offset < 2 * ABORTS:
        answer = fetch(client, topic, offset, partition_max_bytes=64 * 1024, isolation_level=READ_COMMITTED)
        end = end_offset_of(bytes(answer.records))
        assert [each.first_offset for each in answer.aborted_transactions] == list(range(offset - offset % 2, end, 2))
        offset = end
        reads += 1
    assert reads > 5


def test_aborted_transactions_count_towards_max_bytes(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client, 3)
    for index in range(3):
        abort_many(broker, topic, index)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=200_000,
        isolation_level=READ_COMMITTED,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=100_000) for index in range(3)
                ],
            )
        ],
    )
    partitions = client.ask(request, 12).responses[0].partitions
    sizes = [
        len(each.records) + ABORTED_TRANSACTION_BYTES * len(each.aborted_transactions or []) for each in partitions
    ]
    assert sizes[0] > 100_000
    assert sum(sizes) <= 220_000, "the list of the last partition comes with what is read of it"


def test_deleting_a_partition_ends_the_check_of_its_transaction_index(broker: RunningBroker, client: RawClient) -> None:
    """The comparison uses file paths, which may belong to another log by then."""
    topic, _ = create_topic(client)
    abort_many(broker, topic)
    partition = broker.server.services.partitions.find(topic, 0)
    index = partition.log.segments.active.transaction_index

    def checks_after_deletion() -> int:
        index.is_checked = False
        unready = UnreadyLogs()
        unready.add_aborted(partition, 0, 2 * ABORTS)
        pieces = unready.get_ready()
        next(pieces)
        next(pieces)
        partition.is_removed = True
        return len(list(pieces))

    assert broker.call(checks_after_deletion) == 0
