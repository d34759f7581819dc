"""Apache Kafka's controllers and the tested ones in one quorum: they follow each other, vote and read snapshots.

If Apache Kafka is tested, the other controllers are Kafka's too, so that differences are faults of the tests.
"""

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.harness.waiting import eventually
from compat_tests.quorum.nodes import Nodes, initial_controllers
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.replay import Replay
from kwire.cluster.raft.snapshots import decode_snapshot, file_name, snapshots_in
from kwire.log.disk import RealDisk
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.records import iterate_headers
from tests.support.raw_client import RawClient

QUESTION = DescribeQuorumRequest(
    topics=[
        DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
    ]
)


@pytest.fixture
def tested(request):
    return request.config.getoption("--broker")


@pytest.fixture
def nodes(tmp_path):
    made = Nodes(tmp_path)
    yield made
    made.end()


def describe(node):
    """Return a controller's description of the quorum; None if it does not lead or is not running."""
    try:
        with RawClient(node.address) as client:
            partition = client.ask(QUESTION, 2).topics[0].partitions[0]
    except OSError:
        return None
    return partition if partition.error_code == 0 else None


def leader_of(some):
    return next(((node, found) for node in some if (found := describe(node)) is not None), None)


def caught_up(leader, node_id):
    """Return True if a replica has reached the leader's log end offset."""
    found = describe(leader)
    if found is None:
        return False
    replicas = {each.replica_id: each.log_end_offset for each in (*found.current_voters, *found.observers)}
    return node_id in replicas and replicas[node_id] == replicas[leader.node_id] and found.high_watermark > 0


def batches(node, end):
    """Return (base offset, epoch, CRC) of the metadata batches in a node's files below an offset."""
    found = []
    for path in sorted(node.metadata.glob("*.log")):
        found += [
            (header.base_offset, header.partition_leader_epoch, header.crc)
            for _, header in iterate_headers(path.read_bytes())
            if header.next_offset <= end
        ]
    return found


def image(node, end):
    """Return the metadata image of a node's newest snapshot and the log after it."""
    replay, begin = Replay(), 0
    for snapshot_id in snapshots_in(RealDisk(), str(node.metadata))[-1:]:
        if snapshot_id.offset:
            snapshot = decode_snapshot((node.metadata / file_name(snapshot_id)).read_bytes())
            base = MetadataImage().apply(snapshot.records, offset=snapshot_id.offset - 1, epoch=snapshot_id.epoch)
            replay.restart(base)
            begin = snapshot_id.offset
    for path in sorted(node.metadata.glob("*.log")):
        begin = max(begin, replay.feed(path.read_bytes(), begin=begin, end=end))
    return replay.image


def end_of(leader):
    """Return the leader's high watermark."""
    found = describe(leader)
    return 0 if found is None else found.high_watermark


def test_kafka_observes_a_kwire_quorum(nodes, tested):
    voters = [nodes.add(tested) for _ in range(3)]
    observer = nodes.add("kafka")
    nodes.write()
    initial = initial_controllers(voters)
    for node in voters:
        node.format("--initial-controllers", initial)
    observer.format("--no-initial-controllers")
    for node in nodes.all:
        node.start()
    leader, _ = eventually(lambda: leader_of(voters), "a leader")
    eventually(lambda: caught_up(leader, observer.node_id), "Kafka has caught up")
    end = describe(leader).high_watermark
    eventually(lambda: observer.node_id in image(leader, end_of(leader)).controllers, "Kafka has registered")
    assert batches(observer, end) == batches(leader, end)
    leader.end()
    successor, _ = eventually(lambda: leader_of(voters), "another leader")
    assert successor is not leader
    eventually(lambda: caught_up(successor, observer.node_id), "Kafka follows the next leader")
    assert observer.process.poll() is None, observer.output()


def change_users(bootstrap):
    """Add a second credential for alice, and remove bob's."""
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="bob", mechanism=1)],
        upsertions=[
            ScramCredentialUpsertion(name="alice", mechanism=2, iterations=8192, salt=b"7q", salted_password=b"secret")
        ],
    )
    with RawClient(bootstrap) as client:
        answer = client.ask(request, 0)
    assert {each.user: each.error_code for each in answer.results} == {"alice": 0, "bob": 0}


@pytest.mark.parametrize("snapshots", [False, True])
def test_kwire_observes_a_kafka_quorum(nodes, tested, snapshots):
    often = {"metadata.log.max.record.bytes.between.snapshots": "2000"} if snapshots else {}
    leader = nodes.add("kafka", "broker,controller", **often)
    observer = nodes.add(tested)
    nodes.write()
    user = "SCRAM-SHA-256=[name={},password=secret]"
    leader.format("--standalone", "--add-scram", user.format("alice"), "--add-scram", user.format("bob"))
    observer.format("--no-initial-controllers")
    leader.start()
    eventually(lambda: describe(leader), "Kafka leads")
    admin = AdminClient({"bootstrap.servers": leader.bootstrap})
    names = {f"topic-{number}" for number in range(20)}
    for future in admin.create_topics(
        [NewTopic(name, 3, 1, config={"retention.ms": "9999"}) for name in names]
    ).values():
        future.result(60)
    change_users(leader.bootstrap)
    if snapshots:
        eventually(lambda: len(snapshots_in(RealDisk(), str(leader.metadata))) > 1, "Kafka has made a snapshot")
    observer.start()
    eventually(lambda: caught_up(leader, observer.node_id), "kwire has caught up")
    end = end_of(leader)
    eventually(lambda: names <= set(image(observer, end).topics), "the topics are there")
    ours, theirs = image(observer, end), image(leader, end)
    assert ours.topics == theirs.topics
    assert ours.configs == theirs.configs
    assert ours.features == theirs.features
    assert ours.brokers == theirs.brokers
    assert ours.scram == theirs.scram
    assert {user: list(kept) for user, kept in ours.scram.items()} == {"alice": [1, 2]}
    assert observer.process.poll() is None, observer.output()


def test_a_mixed_quorum_elects_kwire_and_kafka_leaders(nodes, tested):
    voters = [nodes.add(tested), nodes.add("kafka"), nodes.add(tested)]
    nodes.write()
    initial = initial_controllers(voters)
    for node in voters:
        node.format("--initial-controllers", initial)
        node.start()
    for _ in range(3):
        running = [node for node in voters if node.process is not None]
        leader, _ = eventually(lambda running=running: leader_of(running), "a leader")
        eventually(lambda leader=leader: all(caught_up(leader, node.node_id) for node in voters), "all have caught up")
        end = end_of(leader)
        assert all(batches(node, end) == batches(leader, end) for node in voters)
        leader.end()
        eventually(lambda leader=leader: leader_of([node for node in voters if node is not leader]), "another leader")
        leader.start()
    assert all(node.process.poll() is None for node in voters)
