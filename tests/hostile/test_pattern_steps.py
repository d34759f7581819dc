"""Regular expressions from clients: they do not block the event loop, for any number of texts and resources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from kwire.cluster.patterns import PATTERN_MAX
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.primitives import ZERO_UUID
from tests.hostile.test_longest_steps import LINES_MAX, longest_step
from tests.support.compiled import IS_COMPILED
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.skipif(IS_COMPILED, reason="compiled code runs no lines")]

ALL_STATES = "(?:" + "|".join("." * 290) + ")*"
"""Pattern whose matcher is in each of its states after each character."""
TEXT = "a" * 249
TRANSACTIONS = 6
SUBSCRIPTIONS = 10
CLIENT_METRICS = 16


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    settings = {"transaction.state.log.num.partitions": "1"}
    with RunningBroker(tmp_path_factory.mktemp("patterns"), settings) as running:
        yield running


def test_a_pattern_for_many_transactional_ids_is_matched_in_pieces(broker: RunningBroker) -> None:
    with broker.client() as client:
        client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        names = {f"{TEXT}{number:06}" for number in range(TRANSACTIONS)}
        for name in names:
            begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            eventually(partial(has_begun, client, begin), "the coordinator answers")
    request = ListTransactionsRequest(transactional_id_pattern=ALL_STATES)
    lines, culprits = longest_step(broker, request, 2)
    assert lines < LINES_MAX, culprits
    with broker.client() as client:
        assert {each.transactional_id for each in client.ask(request, 2).transaction_states} == names


def test_a_long_pattern_for_transactional_ids_is_rejected(broker: RunningBroker) -> None:
    with broker.client() as client:
        client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        request = ListTransactionsRequest(transactional_id_pattern="a" * (PATTERN_MAX + 1))
        assert client.ask(request, 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_patterns_of_many_subscriptions_are_matched_in_pieces(broker: RunningBroker) -> None:
    with broker.client() as client:
        altered = alter(client, f"client_id={ALL_STATES}", validate_only=False)
        assert altered == {(ErrorCode.NONE, None)}
    request = GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID)
    lines, culprits = longest_step(broker, request, 0, client_id=TEXT)
    assert lines < LINES_MAX, culprits


def test_patterns_of_many_subscriptions_are_checked_in_pieces(broker: RunningBroker) -> None:
    match = "client_id=" + "".join(f"[{chr(300 + number)}-{chr(30_000 + number)}]" for number in range(190))
    lines, culprits = longest_step(broker, alteration(match, validate_only=True), 1)
    assert lines < LINES_MAX, culprits
    with broker.client() as client:
        assert alter(client, match, validate_only=True) == {(ErrorCode.NONE, None)}


@pytest.mark.parametrize("pattern", ["a" * PATTERN_MAX, "a{100}" * 4, r"(a)\1", "(?=a)", "("])
def test_a_subscription_with_an_unsupported_pattern_is_rejected(broker: RunningBroker, pattern: str) -> None:
    with broker.client() as client:
        ((code, message),) = alter(client, f"client_id={pattern}", validate_only=True)
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "match" in message


def has_begun(client: RawClient, begin: InitProducerIdRequest) -> bool:
    return bool(client.ask(begin, 4).error_code == ErrorCode.NONE)


def alter(client: RawClient, match: str, *, validate_only: bool) -> set[tuple[int, str | None]]:
    answer = client.ask(alteration(match, validate_only=validate_only), 1)
    return {(each.error_code, each.error_message) for each in answer.responses}


def alteration(match: str, *, validate_only: bool) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsAlterConfigsResource(
                resource_type=CLIENT_METRICS,
                resource_name=f"m{number}",
                configs=[IncrementalAlterConfigsAlterableConfig(name="match", config_operation=0, value=match)],
            )
            for number in range(SUBSCRIPTIONS)
        ],
        validate_only=validate_only,
    )
