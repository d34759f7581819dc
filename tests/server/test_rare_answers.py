"""Responses that need rare timing or a denial in between; stand-ins replace the parts around the tested code."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.security.authorizer import Authorizer
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC
from kwire.log.files import METADATA_DIRECTORY
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchResponseGroup, OffsetFetchResponseTopics
from kwire.server.apis.groups.offset_fetch import _whole
from kwire.server.apis.transactions import add_offsets_to_txn
from kwire.server.assembly.broker_lifecycle import BrokerLifecycle
from kwire.server.node.storage import _reject_other_metadata
from tests.log.faults import broken
from tests.server.test_odd_answers import Asked, play
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch_request, produce_request
from tests.support.running import RunningBroker
from tests.virtual_loop import VirtualLoop


@pytest.mark.parametrize("is_waited_for", [False, True])
def test_add_offsets_waits_until_the_offsets_topic_is_created(is_waited_for: bool) -> None:
    done: list[str] = []

    async def written() -> None:
        done.append("written")

    async def create(topics: list[str]) -> None:
        done.extend(topics)

    async def act(loop: VirtualLoop) -> None:
        services = SimpleNamespace(
            topic_creator=SimpleNamespace(create=create),
            transactions=SimpleNamespace(add=lambda *arguments, **named: written() if is_waited_for else None),
            groups=SimpleNamespace(partition_for=lambda group_id: 0),
        )
        context = cast("Any", SimpleNamespace(services=services, version=4))
        await add_offsets_to_txn._create_and_add(AddOffsetsToTxnRequest(group_id="g"), context)

    play(act)
    assert done == [GROUP_OFFSETS_TOPIC, *(["written"] if is_waited_for else [])]


class RejectGroups(Authorizer):
    """Authorizer that denies the description of groups."""

    def allows(self, *asked: Any) -> bool:
        return False


def test_an_unauthorized_find_coordinator_creates_no_topic(tmp_path: Path) -> None:
    running = RunningBroker(tmp_path / "data")
    try:
        running.authorize_by(RejectGroups())
        with running.client() as client:
            [answer] = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators
        assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert running.server.services.image.topics == {}
    finally:
        running.stop()


def test_unauthorized_topics_are_not_returned_for_a_failed_group() -> None:
    rejected = [OffsetFetchResponseTopics(name="t", partitions=[])]
    known = OffsetFetchResponseGroup(group_id="g", topics=[])
    assert _whole([known], rejected).topics == rejected
    loading = OffsetFetchResponseGroup(group_id="g", topics=[], error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert _whole([loading], rejected).topics == []
    known = OffsetFetchResponseGroup(group_id="g", topics=[])
    assert _whole([known, loading], rejected) is loading, "a shard may go between two looks"


def test_rejected_heartbeats_are_logged_once_until_one_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    fine, rejected = (BrokerHeartbeatResponse(error_code=code) for code in (0, ErrorCode.STALE_BROKER_EPOCH))

    async def act(loop: VirtualLoop) -> None:
        lifecycle = BrokerLifecycle.__new__(BrokerLifecycle)
        lifecycle._left_behind_since_ms = None
        lifecycle._last_error = ErrorCode.NONE
        lifecycle._wants_to_stop = False
        lifecycle._broker_id = 1
        lifecycle._registrar = cast("Any", SimpleNamespace(broker_epoch=lambda: 5))
        lifecycle._directories = cast("Any", SimpleNamespace(offline=list, cordoned=lambda image: None))
        log = SimpleNamespace(image=None, applied_offset=1, is_active=False, node=SimpleNamespace(lacks_space=False))
        lifecycle._metadata_log = cast("Any", log)
        lifecycle._clock = cast("Any", SimpleNamespace(monotonic_ms=lambda: 0.0))
        lifecycle._active_controller = cast("Any", Asked(fine, rejected, rejected, fine, rejected, rejected))
        answers = [await lifecycle._send_heartbeat() for _ in range(6)]
        assert [answer is fine for answer in answers] == [True, False, False, True, False, False]

    play(act)
    assert caplog.messages == ["heartbeats are rejected: STALE_BROKER_EPOCH"] * 2


def test_a_large_request_waits_for_the_answer_to_the_one_before(client: RawClient) -> None:
    name, _ = create_topic(client)
    waits = fetch_request(name, min_bytes=1000, max_wait_ms=300)
    large = produce_request(name, batch(*[b"v" * 100_000] * 5), acks=1)
    frames = [client.frame(waits, 12), client.frame(large, 8)]
    first = client.correlation_id - 1
    client.send_bytes(frames[0])
    client.send_bytes(frames[1])
    assert client.receive(waits, 12, correlation_id=first).error_code == 0
    [topic] = client.receive(large, 8, correlation_id=first + 1).responses
    assert topic.partition_responses[0].error_code == 0


def test_a_directory_whose_metadata_log_cannot_be_checked_prevents_the_start() -> None:
    def is_directory(path: str) -> bool:
        assert path == f"/other/{METADATA_DIRECTORY}"
        raise broken("open", path)

    config = cast("Any", SimpleNamespace(metadata_dir="/own"))
    with pytest.raises(DirectoryRejected, match="make it readable or name another directory"):
        _reject_other_metadata(config, cast("Any", SimpleNamespace(is_directory=is_directory)), ["/own", "/other"])
