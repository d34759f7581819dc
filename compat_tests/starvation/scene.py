"""Data of the attacked brokers: topics, groups, a batch that unpacks to millions of records, an open transaction."""

import time
from dataclasses import dataclass

from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS
from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import Peer
from compat_tests.starvation.packing import LAST_LATER_MS, numbered_batch, packed_batch
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

TOPICS, GROUPS = 1000, 2000
TOPICS_A_REQUEST = 250
SECONDS = 120.0
TRANSACTION_MS = 900_000
"""Kafka's transaction.max.timeout.ms: the transaction that attacks extend stays open during a run."""
VICTIM_TOPIC = "victim"
FIRST = "starving-0000"
"""First of the many topics: attacks that name one topic name this one."""
COMPACTED, COMPACTED_PARTITIONS = "compacted", 8
"""Topic whose batches the broker must decompress on arrival."""
PACKED, PACKED_RECORDS, NUMBERED_RECORDS = "packed", 3_000_000, 1_000_000
"""Topic with one batch of very many records, of which only the last has the timestamp to look up."""
PACKED_LAST_MS = FIRST_TIMESTAMP_MS + LAST_LATER_MS
GROUP, TRANSACTION = 0, 1
"""Key types of coordinators."""
CANDIDATES = 5
"""Candidates for each name: with three brokers, one coordinates a third of the names."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Names and ids that attacks and the victim use. The attacked broker leads and coordinates all of them."""

    bootstrap: str
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    victim_group: str
    transactional_id: str
    producer_id: int
    producer_epoch: int


def prepare(bootstrap, *, broker_id=1, others=(), topics=TOPICS, groups=GROUPS):
    """Create everything on the attacked broker; the victim's topic also has replicas on the others."""
    names = tuple(f"starving-{number:04}" for number in range(topics))
    with Peer(bootstrap) as peer:
        peer.socket.settimeout(SECONDS)
        create(peer, names, [broker_id])
        create(peer, [VICTIM_TOPIC], [broker_id, *others])
        create(peer, [PACKED], [broker_id], **{"max.message.bytes": "100000000"})
        create(peer, [COMPACTED], [broker_id], COMPACTED_PARTITIONS, **{"cleanup.policy": "compact"})
        count = topics + 2 + COMPACTED_PARTITIONS
        eventually(lambda: len(led(peer)) >= count, "all partitions have leaders", SECONDS)
        victim_group, *group_names = coordinated(peer, GROUP, "starving-group", groups + 1, broker_id)
        commit_offsets(peer, group_names)
        store_packed_batch(peer)
        (transactional_id,) = coordinated(peer, TRANSACTION, "starving-transaction", 1, broker_id)
        producer_id, epoch = producer_of(peer, transactional_id)
    return Scene(bootstrap, names, tuple(group_names), victim_group, transactional_id, producer_id, epoch)


def create(peer, names, replicas, partitions=1, **configs):
    given = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas)) for index in range(partitions)
    ]
    for start in range(0, len(names), TOPICS_A_REQUEST):
        topics = [
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=given)
            for name in names[start : start + TOPICS_A_REQUEST]
        ]
        answer = peer.ask(CreateTopicsRequest(topics=topics, timeout_ms=int(SECONDS * 1000)), 7)
        assert {each.error_code for each in answer.topics} == {0}, answer


def led(peer):
    """Return leader and leader epoch by topic and partition, for partitions with a leader."""
    answer = peer.ask(MetadataRequest(topics=None), 12)
    return {
        (topic.name, each.partition_index): (each.leader_id, each.leader_epoch)
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == 0 and each.leader_id >= 0
    }


def coordinated(peer, key_type, prefix, count, broker_id):
    """Return `count` names that this broker coordinates."""
    names = [f"{prefix}-{number:04}" for number in range(CANDIDATES * count)]
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=names)

    def found():
        answers = peer.ask(request, 6).coordinators
        return {each.error_code for each in answers} == {0} and answers

    here = [each.key for each in eventually(found, "the coordinators", SECONDS) if each.node_id == broker_id]
    assert len(here) >= count
    return here[:count]


def commit_offsets(peer, groups):
    """Create groups that exist only because of their committed offset."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=FIRST, partitions=[partition])]
    for group in groups:
        commit = OffsetCommitRequest(group_id=group, member_id="", topics=topics)

        def is_committed(commit=commit):
            return peer.ask(commit, 8).topics[0].partitions[0].error_code == 0

        if not is_committed():
            eventually(is_committed, f"{group} commits an offset", SECONDS)


def store_packed_batch(peer):
    """Store the batch for lookups by timestamp; Kafka gets fewer records, each with its own offset."""
    if peer.produce(PACKED, packed_batch(PACKED_RECORDS)).error_code:
        answer = peer.produce(PACKED, numbered_batch(NUMBERED_RECORDS, LAST_LATER_MS))
        assert answer.error_code == 0, answer


def producer_of(peer, transactional_id):
    """Return the id and epoch of the producer to whose transaction attacks add partitions."""
    init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_MS)
    answer = eventually(lambda: (got := peer.ask(init, 4)).error_code == 0 and got, "a producer id", SECONDS)
    return answer.producer_id, answer.producer_epoch


def now_ms():
    return int(time.time() * 1000)
