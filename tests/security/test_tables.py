"""Tables that grow with what clients send, patterns and names that clients choose (RELIABILITY.md, rows 45 to 48)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, TypeGuard

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.server.settings.config import make_config
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, create_topic, fetch_request, produce, unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

E = ErrorCode
LOADING = (E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS)
VERSIONS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
ROOT = Path(__file__).parents[2]


def test_row_45_tables_are_bounded_by_default() -> None:
    parsed = make_config({}).parsed
    assert parsed["max.incremental.fetch.session.cache.slots"] == 1000
    assert parsed["producer.id.expiration.ms"] == 24 * 3600 * 1000
    assert parsed["transactional.id.expiration.ms"] == 7 * 24 * 3600 * 1000
    assert parsed["offset.metadata.max.bytes"] == 4096


def test_row_45_a_full_table_of_fetch_sessions_gives_none(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, {"max.incremental.fetch.session.cache.slots": "2"}) as broker:
        with broker.client() as client:
            topic, _ = create_topic(client)
            opened = [client.ask(fetch_request(topic, session=(0, 0)), 12).session_id for _ in range(5)]
        assert [session != 0 for session in opened] == [True, True, False, False, False]
        assert broker.call(lambda: len(broker.server.services.fetch_sessions)) == 2


def join_of(group: str, *, member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        protocol_type="consumer",
        protocols=protocols,
    )


def test_row_45_a_group_has_a_largest_size_and_members_get_their_id_first(tmp_path: Path) -> None:
    settings = {"group.max.size": "2", "group.initial.rebalance.delay.ms": "60000"}
    with RunningBroker(tmp_path, settings) as broker:
        group = unique("group")
        members = [broker.client() for _ in range(3)]
        members[0].ask(FindCoordinatorRequest(coordinator_keys=[group]), 6)
        eventually(lambda: members[0].ask(join_of(group), 9).error_code not in LOADING, "the coordinator")
        answers = [client.ask(join_of(group), 9) for client in members[:2]]
        assert {answer.error_code for answer in answers} == {E.MEMBER_ID_REQUIRED}
        for client, answer in zip(members[:2], answers, strict=True):
            client.send(join_of(group, member_id=answer.member_id), 9)
        eventually(lambda: size_of(broker, group) == 2, "two members")
        assert members[2].ask(join_of(group), 9).error_code == E.GROUP_MAX_SIZE_REACHED
        for client in members:
            client.close()


def size_of(broker: RunningBroker, group: str) -> int:
    def count() -> int:
        groups = broker.server.services.groups._weighed_groups()
        return next((len(each.members) for each in groups if each.group_id == group), 0)

    return broker.call(count)


@pytest.mark.parametrize(("size", "code"), [(4096, E.NONE), (4097, E.OFFSET_METADATA_TOO_LARGE)])
def test_row_45_the_metadata_of_an_offset_have_a_largest_size(client: RawClient, size: int, code: ErrorCode) -> None:
    topic, _ = create_topic(client)
    group = unique("group")
    client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 6)
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m" * size)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[offset])]
    request = OffsetCommitRequest(group_id=group, topics=topics)

    def committed() -> Any:
        (partition,) = client.ask(request, 8).topics[0].partitions
        return partition if partition.error_code not in LOADING else None

    assert eventually(committed, "the coordinator").error_code == code


# --- row 46


def begin(client: RawClient, transactional_id: str, timeout_ms: int) -> Any:
    """Return the answer of InitProducerId, once there is a coordinator."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    def answered() -> Any:
        answer = client.ask(request, 4)
        return answer if answer.error_code not in LOADING else None

    return eventually(answered, "the coordinator to answer")


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (900_001, E.INVALID_TRANSACTION_TIMEOUT),
        (2**31 - 1, E.INVALID_TRANSACTION_TIMEOUT),
        (0, E.INVALID_TRANSACTION_TIMEOUT),
        (-1, E.INVALID_TRANSACTION_TIMEOUT),
        (900_000, E.NONE),
    ],
)
def test_row_46_the_timeout_of_a_transaction_has_a_maximum(client: RawClient, timeout_ms: int, code: ErrorCode) -> None:
    client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
    assert begin(client, unique("id"), timeout_ms).error_code == code


def test_row_46_partitions_of_transactions_are_bounded_in_memory(tmp_path: Path) -> None:
    """The limit is 64 MiB for all transactional ids of a broker: about 440,000 partitions."""
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        topic, _ = create_topic(client, 100)
        client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        begun = begin(client, "x", 60_000)
        memory = broker.server.services.transactions._memory
        assert memory._limit_bytes == 64 * 1024 * 1024
        memory._limit_bytes = memory._counted + 1000

        def add(partitions: range) -> int:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=begun.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
            )
            (result,) = client.ask(request, 3).results_by_topic_v3_and_below
            (code,) = {each.partition_error_code for each in result.results_by_partition}
            return int(code)

        assert add(range(50)) == E.NONE
        assert add(range(50, 100)) == E.COORDINATOR_NOT_AVAILABLE
        assert add(range(50)) == E.NONE, "partitions that it has need no memory"


# --- row 47


def heartbeat(regex: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=unique("group"),
        member_id=unique("member"),
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )


@pytest.mark.parametrize(
    ("regex", "code"),
    [
        ("(", E.INVALID_REGULAR_EXPRESSION),
        ("a**", E.INVALID_REGULAR_EXPRESSION),
        (r"(a)\1", E.INVALID_REGULAR_EXPRESSION),
        ("(?=a)", E.INVALID_REGULAR_EXPRESSION),
        ("(((a{100}){100}){100}){100}", E.INVALID_REGULAR_EXPRESSION),
        ("|".join(f"[a-z]{{{number}}}x" for number in range(1, 900)), E.INVALID_REGULAR_EXPRESSION),
        ("(a+)+$", E.NONE),
        ("(a|a)*(a|a)*(a|a)*b", E.NONE),
    ],
    ids=["parenthesis", "repetition", "back reference", "look ahead", "nested counts", "large program", "nested", "or"],
)
def test_row_47_an_expression_is_rejected_or_matched_in_linear_time(
    client: RawClient, regex: str, code: ErrorCode
) -> None:
    client.ask(create_request("a" * 60), 7)
    client.ask(FindCoordinatorRequest(coordinator_keys=["any"]), 6)
    request = heartbeat(regex)

    def answered() -> Any:
        answer = client.ask(request, 1)
        return answer if answer.error_code not in LOADING else None

    assert eventually(answered, "the coordinator").error_code == code


def test_row_47_no_pattern_of_a_client_reaches_pythons_engine() -> None:
    """Every pattern that kwire compiles with `re` is a literal, from constants of its module, or an operator's rule."""
    found = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node.args[0])}"
        for path in (ROOT / "kwire").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if is_call_of_re(node) and not is_constant(node.args[0])
    ]
    assert {each.split(":")[0] for each in found} == {
        "kwire/cluster/patterns.py",  # the letter is one of a constant's
        "kwire/server/security/tls/principal_mapping.py",  # an operator's rules, which no client alters
    }


def is_call_of_re(node: ast.AST) -> TypeGuard[ast.Call]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    owner = node.func.value
    return isinstance(owner, ast.Name) and owner.id == "re" and node.func.attr != "escape"


def is_constant(pattern: ast.expr) -> bool:
    if isinstance(pattern, ast.JoinedStr):
        return all(is_constant(part) for part in pattern.values)
    if isinstance(pattern, ast.FormattedValue):
        return is_constant(pattern.value)
    return isinstance(pattern, ast.Constant) or (isinstance(pattern, ast.Name) and pattern.id.lstrip("_").isupper())


# --- row 48


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a" * 250,
        "a/b",
        "../../etc/passwd",
        "a\0b",
        "a b",
        "a\nb",
        "é",
        "a:b",
        "a%2fb",
        "a\\b",
        "~",
        "-" * 250,
    ],
)
def test_row_48_invalid_topic_names_are_rejected(client: RawClient, name: str) -> None:
    (answer,) = client.ask(create_request(name), 7).topics
    assert answer.error_code == E.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a" * 249, "...", "-", "_x", "A.b-c_9"])
def test_row_48_valid_topic_names_are_accepted(client: RawClient, name: str) -> None:
    (answer,) = client.ask(create_request(name), 7).topics
    assert answer.error_code == E.NONE


def test_row_48_names_that_collide_are_rejected(client: RawClient) -> None:
    create_topic(client, name="collides.here")
    for name in ("collides_here",):
        (answer,) = client.ask(create_request(name), 7).topics
        assert answer.error_code == E.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("delay_ms", ["3600000", "0"], ids=["renamed", "removed"])
def test_row_48_a_deleted_topic_is_renamed_first_and_links_are_not_followed(tmp_path: Path, delay_ms: str) -> None:
    outside, data = tmp_path / "outside", tmp_path / "data"
    outside.mkdir()
    (outside / "precious").write_text("stays")
    with RunningBroker(data, {"log.segment.delete.delay.ms": delay_ms}) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        produce(client, topic, batch(b"v"))
        (data / f"{topic}-0" / "link").symlink_to(outside)
        (data / f"{topic}-0" / "linked-file").symlink_to(outside / "precious")
        (deleted,) = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)]), 6).responses
        assert deleted.error_code == E.NONE
        if delay_ms == "0":
            eventually(lambda: not list(data.glob(f"{topic}-0*")), "the directory to be removed")
        else:
            eventually(lambda: not (data / f"{topic}-0").exists(), "the directory to be renamed")
            (renamed,) = data.glob(f"{topic}-0.*-delete")
            assert not renamed.is_symlink()
    assert (outside / "precious").read_text() == "stays"
