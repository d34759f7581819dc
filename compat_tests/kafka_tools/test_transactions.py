"""kafka-transactions: open and hanging transactions, their producers, and how an administrator ends them."""

from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from compat_tests.confluent_kafka_client.client import admin, offsets_of, producer, read_from, result, send_all
from compat_tests.confluent_kafka_client.transactional import transactional
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_tools.comparing import only_lines_with, without_numbers
from compat_tests.raw.peer import Peer, batch_of
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOOL = "kafka-transactions"
VERIFICATION = "transaction.partition.verification.enable"
LOST_PRODUCER = {"producer_id": 8_000_001, "producer_epoch": 3, "base_sequence": 0, "transactional": True}


def open_transactions(both, transactional_id, topic, count=2):
    """Start a producer on each broker that has written records and not committed them."""
    clients = [transactional(side.broker.bootstrap, transactional_id) for side in both.sides]
    for client in clients:
        client.begin_transaction()
        assert offsets_of(send_all(client, topic, numbered(count))) == list(range(count))
    return clients


def state_of(both, transactional_id):
    ran = both.run(TOOL, "list", change=lambda text: without_numbers(only_lines_with(transactional_id)(text)))
    (row,) = [line.split() for line in ran.lines if transactional_id in line]
    return row[-1]


def test_producers_of_a_partition(both, new_topic):
    name = new_topic()
    both.run("kafka-console-producer", "--topic", name, text="a\nb\n")
    seen = both.run(TOOL, "describe-producers", "--topic", name, "--partition", "0", change=without_numbers)
    assert seen.lines[1].split()[3] == "1"
    assert len(both.run(TOOL, "find-hanging", "--topic", name).lines) == 1
    of_the_broker = both.run(
        TOOL, "describe-producers", "--broker-id", "1", "--topic", name, "--partition", "0", change=without_numbers
    )
    assert len(of_the_broker.lines) == 2


def test_a_transaction_is_described_while_it_is_open_and_when_it_has_ended(both, new_topic, unique):
    name, transactional_id = new_topic(), unique("id")
    clients = open_transactions(both, transactional_id, name)
    described = both.run(TOOL, "describe", "--transactional-id", transactional_id, change=without_numbers)
    header, row = (line.split() for line in described.lines)
    assert dict(zip(header, row, strict=True)) | {
        "TransactionalId": transactional_id,
        "TransactionState": "Ongoing",
        "ProducerEpoch": "0",
        "TransactionTimeoutMs": "60000",
        "TopicPartitions": f"{name}-0",
    } == dict(zip(header, row, strict=True))
    seen = both.run(TOOL, "describe-producers", "--topic", name, "--partition", "0", change=without_numbers)
    assert seen.lines[1].split()[-1] == "0"
    assert state_of(both, transactional_id) == "Ongoing"
    for client in clients:
        client.commit_transaction(30)
    assert state_of(both, transactional_id) == "CompleteCommit"
    described = both.run(TOOL, "describe", "--transactional-id", transactional_id, change=without_numbers)
    assert described.lines[1].split()[4:6] == ["CompleteCommit", "60000"]
    seen = both.run(TOOL, "describe-producers", "--topic", name, "--partition", "0", change=without_numbers)
    assert seen.lines[1].split()[-1] == "None"


def test_transaction_listings_are_filtered(both, new_topic, unique):
    name, transactional_id = new_topic(), unique("id")
    clients = open_transactions(both, transactional_id, name)
    for arguments, found in (
        (("--transactional-id-pattern", f"{transactional_id[:-3]}.*"), 1),
        (("--transactional-id-pattern", f"{transactional_id[:-3]}"), 0),
        (("--transactional-id-pattern", transactional_id, "--duration-filter", "0"), 1),
        (("--transactional-id-pattern", transactional_id, "--duration-filter", "3600000"), 0),
        (("--transactional-id-pattern", transactional_id, "--duration-filter", "-1"), 1),
    ):
        assert len(both.run(TOOL, "list", *arguments, change=without_numbers).lines) == found + 1, arguments
    both.run(TOOL, "list", "--transactional-id-pattern", "(", status=1)
    for client in clients:
        client.abort_transaction(30)


def test_unknown_transactional_ids_and_topics_are_rejected(both, unique):
    unknown = unique("unknown")
    assert unknown in both.run(TOOL, "describe", "--transactional-id", unknown, status=1).said
    both.run(TOOL, "forceTerminateTransaction", "--transactionalId", unknown)
    assert state_of(both, unknown) == "Empty"
    both.run(TOOL, "abort", "--topic", unknown, "--partition", "0", status=1)


def test_an_open_transaction_is_terminated_by_force(both, new_topic, unique):
    name, transactional_id = new_topic(), unique("id")
    clients = open_transactions(both, transactional_id, name)
    both.run(TOOL, "forceTerminateTransaction", "--transactionalId", transactional_id)
    assert state_of(both, transactional_id) == "Empty"
    for client in clients:
        with pytest.raises(KafkaException) as rejected:
            client.commit_transaction(30)
        assert rejected.value.args[0].code() == KafkaError._FENCED


def test_a_hanging_transaction_is_found_and_aborted(both, new_topic):
    name = new_topic()
    for side in both.sides:
        hang(side.broker.bootstrap, name)
        offsets_of(send_all(producer(side.broker.bootstrap), name, numbered(2)))
    where = ("--topic", name, "--partition", "0")
    found = both.run(TOOL, "find-hanging", *where, change=without_minutes)
    assert found.lines[1].split()[:6] == [name, "0", "8000001", "3", "-1", "0"]
    assert len(both.run(TOOL, "find-hanging", "--broker-id", "1", change=only_lines_with(name)).lines) == 2
    wrong = both.run(TOOL, "abort", *where, "--start-offset", "1", status=1)
    assert "Could not find any open transactions" in wrong.said
    both.run(TOOL, "abort", *where, "--start-offset", "0")
    assert len(both.run(TOOL, "find-hanging", *where).lines) == 1
    seen = both.run(TOOL, "describe-producers", *where, change=only_lines_with("8000001 "))
    assert [line.split()[-1] for line in seen.lines if "8000001" in line] == ["None"]
    for side in both.sides:
        received = read_from(side.broker.bootstrap, name, 2, isolation_level="read_committed")
        assert [each.offset() for each in received] == [3, 4]
    both.run(TOOL, "abort", *where, "--start-offset", "0", status=1)


def test_a_hanging_transaction_is_aborted_by_its_producer(both, new_topic):
    name = new_topic()
    for side in both.sides:
        hang(side.broker.bootstrap, name)
    where = ("--topic", name, "--partition", "0")
    of_the_producer = ("--producer-id", "8000001", "--coordinator-epoch", "-1", "--producer-epoch")
    rejected = both.run(TOOL, "abort", *where, *of_the_producer, "2", status=1)
    assert "InvalidProducerEpoch" in rejected.said or "epoch" in rejected.said
    both.run(TOOL, "abort", *where, *of_the_producer, "3")
    assert len(both.run(TOOL, "find-hanging", *where).lines) == 1


def without_minutes(text):
    """Remove the duration of a hanging transaction, which depends on when the tool runs."""
    return "".join(line.rstrip().rpartition(" ")[0] + "\n" for line in text.splitlines())


def hang(bootstrap, topic):
    """Write three records of a transaction that no coordinator has, with a timestamp of years ago."""
    data = PartitionProduceData(index=0, records=bytes(batch_of(3, **LOST_PRODUCER)))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(transactional_id="lost", acks=-1, timeout_ms=5000, topic_data=topics)

    def is_stored():
        answer = peer.ask(request, 9).responses[0].partition_responses[0]
        return (answer.error_code, answer.base_offset) == (0, 0)

    with Peer(bootstrap) as peer, without_verification(bootstrap):
        eventually(is_stored, "the changed setting counts")


@contextmanager
def without_verification(bootstrap):
    """Disable the verification of transactions with their coordinator, as in old brokers."""
    set_verification(bootstrap, "false")
    try:
        yield
    finally:
        set_verification(bootstrap, "true")


def set_verification(bootstrap, value):
    entry = ConfigEntry(VERIFICATION, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    client = admin(bootstrap)
    result(client.incremental_alter_configs([resource]))
