"""Cost against the partitions of three brokers, three replicas each: replicated produce and elections."""

import signal
import statistics
import time
from functools import partial

from benchmarks.cluster import METADATA_VERSION, SECONDS_MAX, ClusterNode, ClusterRun
from benchmarks.frames import produce_error_position, produce_frame
from benchmarks.growth.probes import REST_SECONDS, cpu_share, figures_of, settle, windows_of, write_to_topic
from benchmarks.load import load
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw_client import RawClient

TOPIC_PARTITIONS = 1000
SESSION_MS, HEARTBEAT_MS = 4000, 500
KNOWN_LEAST_SECONDS = (SESSION_MS - HEARTBEAT_MS) / 1000
"""Time until a killed broker's session ends at the earliest: its last heartbeat may be one interval old."""
PREFERRED = 0
ELECT_VERSION, QUORUM_VERSION = 2, 1
ELECTIONS = 5
IDLE_SHARE = 0.12
"""CPU of three brokers together when idle, as a share of one core."""
LOOK_SECONDS = 0.01


def measure(name: str, size: int) -> dict[str, float]:
    """Let one broker lead all partitions, not the active controller; stop it, re-elect it as leader, then kill it."""
    settings = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": str(HEARTBEAT_MS)}
    with ClusterRun(name, **settings) as run:
        leader = next(node for node in run.nodes if node.node_id != active_controller(run))
        topics = {
            f"many-{first // TOPIC_PARTITIONS}": min(TOPIC_PARTITIONS, size - first)
            for first in range(0, size, TOPIC_PARTITIONS)
        }
        started = time.perf_counter()
        for topic, count in topics.items():
            run.make_topic(topic, count, led_by=leader.node_id)
        await_in_sync(run, topics)
        figures = {"all partitions created and in sync, s": time.perf_counter() - started}
        started = time.perf_counter()
        with RawClient(leader.bootstrap) as client:  # followers open their logs shortly after the metadata shows them
            client.socket.settimeout(SECONDS_MAX)
            for topic, count in topics.items():
                write_to_topic(client, topic, count, acks=-1)
        figures["all written to, s"] = time.perf_counter() - started
        settle(run, IDLE_SHARE)
        figures |= replicated_produce(run, leader)
        figures["memory of three, MB"] = run.resident_megabytes()
        return figures | elections(run, leader, topics)


def active_controller(run: ClusterRun) -> int:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    request = DescribeQuorumRequest(topics=[topic])
    deadline = time.perf_counter() + SECONDS_MAX
    with RawClient(run.nodes[0].bootstrap) as client:
        client.socket.settimeout(SECONDS_MAX)
        while (answer := client.ask(request, QUORUM_VERSION)).error_code != 0:
            assert time.perf_counter() < deadline, "no controller is known"
            time.sleep(LOOK_SECONDS)  # a broker that has just started does not know the active controller yet
    leader: int = answer.topics[0].partitions[0].leader_id
    return leader


def await_in_sync(run: ClusterRun, topics: dict[str, int]) -> None:
    for topic, count in topics.items():
        run.await_in_sync(topic, count)


def replicated_produce(run: ClusterRun, leader: ClusterNode) -> dict[str, float]:
    """Measure produce requests to one partition with acks=all, and the CPU of the three brokers together."""
    frames, position = [produce_frame("many-0", 0, 100, acks=-1)], produce_error_position("many-0")
    sent = partial(load, run, frames, position, connections=1, port=leader.client_port)  # type: ignore[arg-type]
    rest = cpu_share(run, REST_SECONDS)
    return {"CPU of three at rest, us/s": rest * 1e6} | figures_of("replicated produce", windows_of(sent))


def elections(run: ClusterRun, leader: ClusterNode, topics: dict[str, int]) -> dict[str, float]:
    """Time a clean stop until other brokers lead all, preferred elections of one and of all, and a kill -9 likewise."""
    other = next(node for node in run.nodes if node is not leader)
    assert leader.process is not None
    started = time.perf_counter()
    leader.process.send_signal(signal.SIGTERM)
    await_leaders(other, topics, leader.node_id, led=False)
    moved = time.perf_counter() - started
    leader.process.wait(SECONDS_MAX)
    run.start(leader)
    started = time.perf_counter()
    await_in_sync(run, topics)
    in_sync = time.perf_counter() - started
    settle(run, IDLE_SHARE)
    figures = {"stop until others lead all, s": moved, "in sync after a restart, s": in_sync}
    figures |= _preferred(run, topics)
    await_leaders(other, topics, leader.node_id, led=True)
    settle(run, IDLE_SHARE)
    run.kill(leader)
    started = time.perf_counter()
    await_leaders(other, topics, leader.node_id, led=False)
    killed = time.perf_counter() - started - KNOWN_LEAST_SECONDS
    return figures | {"kill until others lead all, without the session, s": killed}


def _preferred(run: ClusterRun, topics: dict[str, int]) -> dict[str, float]:
    """Time preferred leader elections: single partitions first, then all the others in one request."""
    taken: list[float] = []
    with RawClient(run.nodes[0].bootstrap) as client:
        client.socket.settimeout(SECONDS_MAX)
        for partition in range(ELECTIONS):
            started = time.perf_counter()
            elect(client, {"many-0": [partition]})
            taken.append(time.perf_counter() - started)
        started = time.perf_counter()
        elect(client, {topic: list(range(count)) for topic, count in topics.items()})
        everything = time.perf_counter() - started
    return {"election of one, ms": statistics.median(taken) * 1e3, "election of all, s": everything}


def elect(client: RawClient, partitions: dict[str, list[int]]) -> None:
    """Elect the preferred replicas as leaders."""
    wanted = [ElectLeadersTopicPartitions(topic=topic, partitions=indexes) for topic, indexes in partitions.items()]
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted, timeout_ms=60_000)
    answer = client.ask(request, ELECT_VERSION)
    codes = {each.error_code for result in answer.replica_election_results for each in result.partition_result}
    assert codes <= {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}, codes


def await_leaders(at: ClusterNode, topics: dict[str, int], leader_id: int, *, led: bool) -> None:
    """Wait until a broker's metadata shows this leader for all partitions or, without `led`, for none of them."""
    deadline = time.perf_counter() + SECONDS_MAX
    with RawClient(at.bootstrap) as client:
        client.socket.settimeout(SECONDS_MAX)
        for topic, count in topics.items():
            while not _is_led(client, topic, count, leader_id, led=led):
                assert time.perf_counter() < deadline, f"{topic} is not led as wanted"
                time.sleep(LOOK_SECONDS)


def _is_led(client: RawClient, topic: str, count: int, leader_id: int, *, led: bool) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (found,) = client.ask(request, METADATA_VERSION).topics
    leaders = [each.leader_id for each in found.partitions]
    return len(leaders) == count and all(each >= 0 and (each == leader_id) is led for each in leaders)
