"""Cost against the number of one-member groups: one group's requests, ListGroups for all groups, a restart."""

import time
from collections.abc import Callable

from benchmarks.brokers import Run
from benchmarks.frames import fetch_error_position, frame, offset_commit_frame
from benchmarks.growth.probes import (
    USED,
    GrowthRun,
    at_rest,
    client_of,
    make_used,
    produce_and_fetch,
    repeated,
    requests,
    settle,
    stop_seconds,
    until,
)
from benchmarks.rows.groups import RETRY, wait_for_coordinator
from benchmarks.rows.small import warm_up
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_consumer_protocol
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.raw_client import RawClient

JOIN, SYNC, COMMIT, OFFSET_FETCH, HEARTBEAT, LIST, DESCRIBE = 3, 3, 7, 5, 3, 4, 5
"""Versions of the requests. JoinGroup 3 assigns a member id without a second request."""
SESSION_MS = 1_800_000
"""Kafka's maximum: members of idle groups need no heartbeats during the measurement."""
ONCE_MORE = 10
"""Requests of each kind in a window."""
HEARTBEAT_ERROR_POSITION = 12
"""Position of the error code: it follows the size, correlation id and throttle time."""
SUBSCRIPTION = encode_consumer_protocol(ConsumerProtocolSubscription(topics=[USED]))


def measure(name: str, size: int) -> dict[str, float]:
    """Measure a broker with `size` groups, each with one member that has an assignment and a committed offset."""
    with GrowthRun(name) as run:
        make_used(run)
        wait_for_coordinator(run, "group-0")
        if name == "kafka":
            warm_up(run)
        started = time.perf_counter()
        with client_of(run) as client:
            generation, member = _join(client, "group-0")
            for number in range(1, size):
                _join(client, f"group-{number}")
            figures = {"all groups joined, s": time.perf_counter() - started}
            settle(run)
            figures |= at_rest(run) | produce_and_fetch(run)
            figures |= _one_group(run, generation, member)
            figures |= _asked(run, "join and commit of one more", lambda n: _join(client, f"more-{size}-{n}"))
            figures |= _asked(run, "describe one", lambda _: _describe(client))
            figures |= _asked(run, "list all", lambda _: _list_all(client, size))
        return figures | _restart(run)


def _join(client: RawClient, group: str) -> tuple[int, str]:
    """Join a new group as its only member, which is also its leader; return the generation and the member id."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    joined = client.ask(request, JOIN)
    while joined.error_code in RETRY:
        time.sleep(0.02)
        joined = client.ask(request, JOIN)
    assert joined.error_code == ErrorCode.NONE, ErrorCode(joined.error_code).name
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"part")
    synced = client.ask(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        ),
        SYNC,
    )
    assert synced.error_code == ErrorCode.NONE, ErrorCode(synced.error_code).name
    committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
        topics=[OffsetCommitRequestTopic(name=USED, partitions=[committed])],
    )
    (topic,) = client.ask(request, COMMIT).topics
    assert topic.partitions[0].error_code == ErrorCode.NONE, topic
    return joined.generation_id, joined.member_id


def _one_group(run: Run, generation: int, member: str) -> dict[str, float]:
    """Measure heartbeats of one group's member, and offset commits of a group without members."""
    beat = HeartbeatRequest(group_id="group-0", generation_id=generation, member_id=member)
    figures = requests(run, "heartbeat", [frame(12, HEARTBEAT, beat)], HEARTBEAT_ERROR_POSITION)
    commit = offset_commit_frame("committer", USED, 0)
    return figures | requests(run, "offset commit", [commit], fetch_error_position(USED))


def _asked(run: Run, name: str, ask: Callable[[int], object]) -> dict[str, float]:
    cpu, taken = repeated(run, ask, ONCE_MORE)
    return {f"{name} CPU, us": cpu * 1e6, f"{name}, us": taken * 1e6}


def _describe(client: RawClient) -> None:
    (group,) = client.ask(DescribeGroupsRequest(groups=["group-0"]), DESCRIBE).groups
    assert group.group_state == "Stable", group


def _list_all(client: RawClient, size: int) -> None:
    assert len(client.ask(ListGroupsRequest(), LIST).groups) >= size


def _restart(run: Run) -> dict[str, float]:
    """Time a clean stop, and a start until OffsetFetch returns the last group's committed offset."""
    stopped = stop_seconds(run)
    started = time.perf_counter()
    run.broker.launch()
    until(lambda: _is_loaded(run))
    return {"clean stop, s": stopped, "restart until offsets are answered, s": time.perf_counter() - started}


def _is_loaded(run: Run) -> bool:
    request = OffsetFetchRequest(group_id="group-0", topics=[OffsetFetchRequestTopic(name=USED, partition_indexes=[0])])
    try:
        with client_of(run) as client:
            answer = client.ask(request, OFFSET_FETCH)
    except OSError:
        return False
    return not answer.error_code and answer.topics[0].partitions[0].committed_offset == 1
