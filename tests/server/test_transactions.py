"""Transactions over the wire: clients with the oldest and the newest versions, and malicious clients."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.server.apis.records.produce import ADDS_TO_TRANSACTION_SINCE
from tests.log.support import NOW_MS, batch
from tests.support.raw_client import RawClient
from tests.support.requests import batch as plain_batch
from tests.support.requests import create_topic, fetch, fetch_request, produce, unique, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

TRANSACTION = 1
"""FindCoordinator's key type of transactional ids."""


class Producer(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


def find(client: RawClient, transactional_id: str) -> Any:
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    return client.ask(request, 4).coordinators[0]


def init(client: RawClient, transactional_id: str = "", version: int = 5) -> Producer:
    transactional_id = transactional_id or unique("id")
    assert find(client, transactional_id).error_code == 0
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    while (answer := client.ask(request, version)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        pass
    assert answer.error_code == 0
    return Producer(transactional_id, answer.producer_id, answer.producer_epoch)


def add(client: RawClient, producer: Producer, topic: str, *partitions: int, version: int = 3) -> list[ErrorCode]:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
    )
    results = client.ask(request, version).results_by_topic_v3_and_below
    return [ErrorCode(each.partition_error_code) for topic in results for each in topic.results_by_partition]


def send_request(
    producer: Producer, topic: str, value: bytes, sequence: int, *, acks: int = -1, timestamp: int = NOW_MS
) -> ProduceRequest:
    records = batch(
        value,
        timestamp=timestamp,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=sequence,
        transactional=True,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(records))])
    return ProduceRequest(transactional_id=producer.transactional_id, acks=acks, timeout_ms=5000, topic_data=[data])


def send(
    client: RawClient, producer: Producer, topic: str, value: bytes = b"v", sequence: int = 0, *, version: int = 12
) -> Any:
    """Produce to one partition and return its response."""
    answer = client.ask(send_request(producer, topic, value, sequence), version)
    return answer.responses[0].partition_responses[0]


def end(client: RawClient, producer: Producer, *, commit: bool, version: int = 5) -> Any:
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    return client.ask(request, version)


def ended(client: RawClient, producer: Producer, *, commit: bool) -> Producer:
    """End a transaction and return the producer with its next epoch."""
    answer = end(client, producer, commit=commit)
    assert answer.error_code == 0
    return Producer(producer.transactional_id, answer.producer_id, answer.producer_epoch)


def describe(client: RawClient, transactional_id: str) -> Any:
    return client.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states[0]


def described_at_rest(client: RawClient, producer: Producer) -> Any:
    """Return the description of a transaction once its markers are written."""
    deadline = time.monotonic() + 10
    while (found := describe(client, producer.transactional_id)).transaction_state.startswith("Prepare"):
        assert time.monotonic() < deadline
    return found


def test_the_coordinator_is_found_and_its_topic_made(client: RawClient) -> None:
    found = find(client, "somebody")
    assert (found.error_code, found.node_id) == (0, 1)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="__transaction_state")])
    (topic,) = client.ask(asked, 9).topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 50)


def test_transaction_version_is_finalised(client: RawClient) -> None:
    answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    finalised = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalised["transaction.version"] == 2


def test_a_transaction_of_a_new_client(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = init(client)
    assert [send(client, producer, topic, b"a").base_offset, send(client, producer, topic, b"b", 1).base_offset] == [
        0,
        1,
    ]
    assert fetch(client, topic, isolation_level=1).last_stable_offset == 0
    after = ended(client, producer, commit=True)
    assert after == producer._replace(epoch=1)
    described_at_rest(client, producer)
    read = fetch(client, topic, isolation_level=1)
    assert values_in(read.records)[:2] == [b"a", b"b"]
    assert (read.last_stable_offset, read.aborted_transactions) == (3, [])
    assert send(client, after, topic, b"c").base_offset == 3


def test_a_transaction_of_an_old_client(client: RawClient) -> None:
    topic, _ = create_topic(client, 2)
    producer = init(client, version=1)
    assert send(client, producer, topic, version=3).error_code == ErrorCode.INVALID_TXN_STATE
    assert send(client, producer, topic, version=11).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert add(client, producer, topic, 0, 1, version=0) == [ErrorCode.NONE] * 2
    assert send(client, producer, topic, version=3).base_offset == 0
    assert end(client, producer, commit=True, version=0).error_code == 0
    described_at_rest(client, producer)
    assert add(client, producer, topic, 0, version=0) == [ErrorCode.NONE]
    assert send(client, producer, topic, b"w", 1, version=3).base_offset == 2
    assert end(client, producer, commit=False, version=0).error_code == 0


@pytest.mark.parametrize("version", [9, 12])
def test_a_later_batch_does_not_begin_the_transaction_of_a_rejected_one(client: RawClient, version: int) -> None:
    """If the later batch were stored, the first one would be out of order forever, even after a split."""
    topic, _ = create_topic(client, 1, max_message_bytes=1000)
    producer = init(client, version=3)
    if version < ADDS_TO_TRANSACTION_SINCE:
        assert add(client, producer, topic, 0) == [ErrorCode.NONE]
    codes = [
        send(client, producer, topic, value, sequence, version=version).error_code
        for value, sequence in ((b"v" * 2000, 0), (b"b", 1), (b"a", 0), (b"b", 1))
    ]
    rejected = [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert codes == [*rejected, ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
def test_internal_topics_cannot_be_added_to_a_transaction(client: RawClient, topic: str) -> None:
    own, _ = create_topic(client)
    producer = init(client, version=1)
    assert add(client, producer, topic, 0, version=3) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert describe(client, producer.transactional_id).transaction_state == "Empty"
    assert add(client, producer, own, 0, version=3) == [ErrorCode.NONE]


def test_a_read_committed_fetch_lists_aborted_transactions(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = init(client)
    for number, commit in enumerate((False, True, False)):
        assert send(client, producer, topic, b"%d" % number).error_code == 0
        producer = ended(client, producer, commit=commit)
        described_at_rest(client, producer)
    read = [fetch(client, topic, offset, isolation_level=1) for offset in (0, 4)]
    listed = {(each.producer_id, each.first_offset) for answer in read for each in answer.aborted_transactions}
    assert listed == {(producer.producer_id, 0), (producer.producer_id, 4)}
    assert fetch(client, topic, isolation_level=0).aborted_transactions is None


def test_a_batch_that_comes_again_gets_its_offset(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = init(client)
    for _ in range(2):
        assert send(client, producer, topic, b"a").base_offset == 0
    after = ended(client, producer, commit=True)
    described_at_rest(client, producer)
    assert send(client, producer, topic, b"a").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(client, after, topic, b"b").base_offset == 2
    assert send(client, after, topic, b"b").base_offset == 2


@pytest.mark.parametrize(
    ("new", "code"), [(False, ErrorCode.INVALID_PRODUCER_EPOCH), (True, ErrorCode.PRODUCER_FENCED)]
)
def test_fencing_has_the_error_code_of_the_request_version(client: RawClient, new: bool, code: ErrorCode) -> None:
    topic, _ = create_topic(client)
    old = init(client)
    init(client, old.transactional_id)
    assert add(client, old, topic, 0, version=2 if new else 1) == [code]
    assert end(client, old, commit=True, version=2 if new else 1).error_code == code
    offsets = AddOffsetsToTxnRequest(
        transactional_id=old.transactional_id, producer_id=old.producer_id, producer_epoch=old.epoch, group_id="g"
    )
    assert client.ask(offsets, 2 if new else 1).error_code == code
    keep = InitProducerIdRequest(
        transactional_id=old.transactional_id,
        transaction_timeout_ms=1000,
        producer_id=old.producer_id,
        producer_epoch=old.epoch,
    )
    assert client.ask(keep, 4 if new else 3).error_code == code
    assert send(client, old, topic).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_transactional_produce_with_acks_0_has_no_response(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = init(client)
    client.send_bytes(client.frame(send_request(producer, topic, b"a", 0, acks=0), 12))
    assert send(client, producer, topic, b"b", 1).base_offset == 1


def test_a_rejected_verification_with_acks_0_closes_the_connection(client: RawClient, broker: RunningBroker) -> None:
    """The rejection may arrive late: the request stays in progress until then."""
    topic, _ = create_topic(client)
    producer = init(client)
    with RawClient(broker.bootstrap_server) as sender:
        sender.send_bytes(sender.frame(send_request(producer, topic, b"a", 5, acks=0), 12))
        assert sender.is_closed()
    assert describe(client, producer.transactional_id).transaction_state == "Ongoing"
    assert fetch(client, topic).high_watermark == 0


def test_transactions_and_producers_are_described(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = init(client)
    send(client, producer, topic)
    found = describe(client, producer.transactional_id)
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == ("Ongoing", producer.producer_id, 0)
    assert [(each.topic, each.partitions) for each in found.topics] == [(topic, [0])]
    listed = client.ask(ListTransactionsRequest(producer_id_filters=[producer.producer_id]), 1).transaction_states
    assert [(each.transactional_id, each.transaction_state) for each in listed] == [
        (producer.transactional_id, "Ongoing")
    ]
    asked = DescribeProducersRequest(topics=[DescribeProducersTopicRequest(name=topic, partition_indexes=[0])])
    (known,) = client.ask(asked, 0).topics[0].partitions[0].active_producers
    assert (known.producer_id, known.current_txn_start_offset, known.coordinator_epoch) == (producer.producer_id, 0, -1)
    ended(client, producer, commit=True)
    described_at_rest(client, producer)
    (known,) = client.ask(asked, 0).topics[0].partitions[0].active_producers
    assert (known.producer_epoch, known.current_txn_start_offset, known.coordinator_epoch) == (1, -1, 0)


# --- malicious clients


@pytest.mark.parametrize("name", ["unknown", "x" * 32_000, "a\0b", "\U0001f600"])
def test_unknown_transactional_ids_are_rejected(client: RawClient, name: str) -> None:
    topic, _ = create_topic(client)
    unknown = Producer(name, 5, 0)
    assert find(client, name).error_code == 0
    assert add(client, unknown, topic, 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert end(client, unknown, commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert describe(client, name).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert send(client, unknown, topic).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert fetch(client, topic).high_watermark == 0


@pytest.mark.parametrize("epoch", [-32768, -1, 7, 32766, 32767])
def test_unknown_producer_epochs_are_fenced(client: RawClient, epoch: int) -> None:
    topic, _ = create_topic(client)
    producer = init(client)._replace(epoch=epoch)
    assert add(client, producer, topic, 0) == [ErrorCode.PRODUCER_FENCED]
    for version in (4, 5):
        assert end(client, producer, commit=True, version=version).error_code == ErrorCode.PRODUCER_FENCED
    assert describe(client, producer.transactional_id).transaction_state == "Empty"


@pytest.mark.parametrize("producer_id", [-(2**63), -1, 2**63 - 1])
def test_unknown_producer_ids_return_invalid_producer_id_mapping(client: RawClient, producer_id: int) -> None:
    topic, _ = create_topic(client)
    producer = init(client)._replace(producer_id=producer_id)
    assert add(client, producer, topic, 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert end(client, producer, commit=False).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_partitions_named_more_than_once(client: RawClient) -> None:
    topic, _ = create_topic(client, 2)
    producer = init(client)
    assert add(client, producer, topic, 0, 0, 1, 0) == [ErrorCode.NONE] * 2
    assert describe(client, producer.transactional_id).topics[0].partitions == [0, 1]
    rejected = add(client, producer, topic, 0, -1, 2)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rejected == [ErrorCode.OPERATION_NOT_ATTEMPTED, unknown, unknown]


def test_markers_of_unknown_transactions_and_partitions(client: RawClient) -> None:
    topic, _ = create_topic(client)

    def mark(*names: str) -> list[ErrorCode]:
        marker = WritableTxnMarker(
            producer_id=77,
            producer_epoch=0,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0, 9]) for name in names],
            coordinator_epoch=0,
        )
        answer = client.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        return [ErrorCode(each.error_code) for name in answer.markers[0].topics for each in name.partitions]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mark(topic, "nowhere") == [ErrorCode.NONE, unknown, unknown, unknown]
    assert fetch(client, topic, isolation_level=1).last_stable_offset == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"producer_epoch": -1}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"producer_id": -5}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"producer_epoch": -2}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"coordinator_epoch": -2}, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_markers_with_negative_numbers_are_rejected(
    client: RawClient, changes: dict[str, int], code: ErrorCode
) -> None:
    topic, _ = create_topic(client)
    numbers = {"producer_id": 77, "producer_epoch": 0, "coordinator_epoch": 0} | changes
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[0])]
    marker = WritableTxnMarker(**numbers, transaction_result=True, topics=topics)
    answer = client.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    assert [each.error_code for name in answer.markers[0].topics for each in name.partitions] == [code]
    assert fetch(client, topic).high_watermark == 0


def test_a_topic_named_without_partitions_is_answered(client: RawClient) -> None:
    topic, _ = create_topic(client)
    producer = init(client)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=[0]),
            AddPartitionsToTxnTopic(name="none", partitions=[]),
        ],
    )
    results = client.ask(request, 3).results_by_topic_v3_and_below
    found = {each.name: [one.partition_error_code for one in each.results_by_partition] for each in results}
    assert found == {topic: [ErrorCode.NONE], "none": []}


def test_an_open_transaction_continues_after_a_restart(data_dir: Any) -> None:
    with RunningBroker(data_dir) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        producer = init(client)
        send(client, producer, topic, b"a")
    with RunningBroker(data_dir) as broker, broker.client() as client:
        while describe(client, producer.transactional_id).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            pass
        assert send(client, producer, topic, b"b", 1).base_offset == 1
        ended(client, producer, commit=True)
        assert described_at_rest(client, producer).transaction_state == "CompleteCommit"
        assert fetch(client, topic, isolation_level=1).last_stable_offset == 3


def test_a_read_committed_fetch_waits_for_the_end_of_a_transaction(client: RawClient, broker: RunningBroker) -> None:
    """The next batch of the transaction is not visible to the consumer and must not complete its fetch."""
    topic, _ = create_topic(client)
    producer = init(client)
    send(client, producer, topic, b"a")
    with RawClient(broker.bootstrap_server) as reader:
        request = fetch_request(topic, isolation_level=1, max_wait_ms=30_000, min_bytes=100)
        reader.send_bytes(reader.frame(request, 11))
        send(client, producer, topic, b"b", 1)
        ended(client, producer, commit=True)
        answer = reader.receive(request, 11)
    assert values_in(answer.responses[0].partitions[0].records)[:2] == [b"a", b"b"]


def test_a_read_committed_fetch_counts_stable_bytes_for_min_bytes(client: RawClient, broker: RunningBroker) -> None:
    topic, _ = create_topic(client)
    producer = init(client)
    now_ms = int(time.time() * 1000)  # close to the marker's time, so that the marker starts no segment
    request = send_request(producer, topic, b"a", 0, timestamp=now_ms)
    size = len(request.topic_data[0].partition_data[0].records or b"")
    assert client.ask(request, 12).responses[0].partition_responses[0].error_code == 0
    with RawClient(broker.bootstrap_server) as reader:
        # The transaction and its marker are too small for min.bytes; the next batch must complete the fetch.
        asked = fetch_request(topic, isolation_level=1, max_wait_ms=30_000, min_bytes=2 * size + 20)
        reader.send_bytes(reader.frame(asked, 11))
        described_at_rest(client, ended(client, producer, commit=True))
        produce(client, topic, plain_batch(b"b", timestamp=now_ms))
        answer = reader.receive(asked, 11)
    assert values_in(answer.responses[0].partitions[0].records)[0::2] == [b"a", b"b"]


def offsets_of(client: RawClient, group: str, version: int) -> list[Any]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    found: list[Any] = client.ask(request, version).groups[0].topics
    return found


def test_offsets_in_a_transaction_for_a_topic_that_is_deleted_are_forgotten_with_it(client: RawClient) -> None:
    producer = init(client)
    kept, doomed = create_topic(client)[0], create_topic(client)[0]
    group = unique("group")
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
    add_offsets = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    assert client.ask(add_offsets, 3).error_code == ErrorCode.NONE
    commit = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(name=name, partitions=[TxnOffsetCommitRequestPartition(committed_offset=5)])
            for name in (kept, doomed)
        ],
    )
    assert [topic.partitions[0].error_code for topic in client.ask(commit, 4).topics] == [0, 0]
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=doomed)], timeout_ms=5000), 6)
    ended(client, producer, commit=True)
    shown = eventually(lambda: offsets_of(client, group, 9), "the offsets to be committed")
    assert [each.name for each in shown] == [kept]


def test_offsets_of_a_topic_that_went_while_they_were_loaded_have_no_topic_id_to_be_shown_by(
    broker: RunningBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions with topic names include such offsets, as in Kafka."""
    topic, _ = create_topic(client)
    group = unique("group")
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
    asked = OffsetCommitRequestTopic(name=topic, partitions=[OffsetCommitRequestPartition(committed_offset=5)])
    commit = OffsetCommitRequest(group_id=group, topics=[asked])
    assert client.ask(commit, 8).topics[0].partitions[0].error_code == ErrorCode.NONE

    runtime = broker.server.services.groups._runtime

    def break_all() -> None:
        for shard in runtime:
            with suppress(KafkaError), shard:
                raise AssertionError("a test breaks it")

    def load_all() -> None:
        for shard in runtime:
            runtime._load_soon(shard)

    monkeypatch.setattr("kwire.coordinator.runtime.RELOAD_PAUSE_S", 3600.0)
    broker.call(break_all)
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
    broker.call(load_all)
    shown = eventually(lambda: offsets_of(client, group, 9), "the offsets to be loaded")
    assert [each.name for each in shown] == [topic]
    assert offsets_of(client, group, 10) == []
