"""Client telemetry: subscriptions, push intervals, and accepted pushes (KIP-714)."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any
from uuid import UUID

import pytest

from kwire.chunks import at_once
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest
from kwire.protocol.primitives import ZERO_UUID
from kwire.seams import SystemRandomSource
from kwire.server.requests.client_telemetry import CLIENTS_MAX, ClientTelemetry
from tests.server.quotas.world import HandClock
from tests.support.raw_client import RawClient

NOTHING = MetadataImage()
ME = UUID(int=0xABCD)
APP = {"client_id": "app-1", "client_software_name": "librdkafka"}


def telemetry() -> tuple[ClientTelemetry, HandClock]:
    clock = HandClock()
    return ClientTelemetry(clock=clock, random_source=SystemRandomSource(1), bytes_max=1000), clock


def push(to: ClientTelemetry, subscription_id: int, *, image: MetadataImage = NOTHING, **more: Any) -> ErrorCode:
    settings = {"is_terminating": False, "compression_type": 0, "size": 10} | more
    try:
        at_once(to.push(settings.pop("instance_id", ME), APP, image, subscription_id=subscription_id, **settings))
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_without_subscriptions_the_push_interval_is_five_minutes() -> None:
    asked, clock = telemetry()
    first_id, first = at_once(asked.subscribe(ZERO_UUID, APP, NOTHING))
    assert (first.metrics, first.interval_ms) == ([], 300_000)
    with pytest.raises(KafkaError) as rejected:
        at_once(asked.subscribe(first_id, APP, NOTHING))
    assert rejected.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.ms += 300_000
    again_id, again = at_once(asked.subscribe(first_id, APP, NOTHING))
    assert (again_id, again.subscription_id) == (first_id, first.subscription_id)
    _, other = at_once(asked.subscribe(ZERO_UUID, APP, NOTHING))
    assert other.subscription_id != first.subscription_id


def test_pushes_before_the_interval_are_throttled() -> None:
    asked, clock = telemetry()
    _, instance = at_once(asked.subscribe(ME, APP, NOTHING))
    number = instance.subscription_id
    clock.ms += 1
    assert push(asked, number) == 0, "the first may come early"
    clock.ms += 1
    assert push(asked, number) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.ms += 300_000
    assert push(asked, number) == 0
    assert push(asked, number, is_terminating=True) == 0, "a farewell may come at any time"
    clock.ms += 300_000
    assert push(asked, number) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"subscription_id": 5}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": 1001}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"instance_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": UUID(int=77)}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
    ],
)
def test_pushes_that_are_rejected(more: dict[str, Any], code: ErrorCode) -> None:
    asked, clock = telemetry()
    _, instance = at_once(asked.subscribe(ME, APP, NOTHING))
    clock.ms += 1
    assert push(asked, more.pop("subscription_id", instance.subscription_id), **more) == code


def test_subscriptions_choose_clients_and_changes_reach_them() -> None:
    asked, clock = telemetry()
    _, before = at_once(asked.subscribe(ME, APP, NOTHING))
    image = MetadataImage(
        configs={
            (16, "some"): {"metrics": "a.,b.", "interval.ms": "5000", "match": "client_id=app-.*"},
            (16, "all"): {"metrics": "*", "interval.ms": "9000", "match": "client_software_name=apache-.*"},
            (16, "odd"): {"metrics": "c.", "match": "client_id=(("},
        }
    )
    clock.ms += 10
    assert push(asked, before.subscription_id, image=image) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    clock.ms += 5_000
    _, after = at_once(asked.subscribe(ME, APP, image))
    assert (after.metrics, after.interval_ms) == (["a.", "b."], 5000)
    java = {"client_id": "app-2", "client_software_name": "apache-kafka-java"}
    _, everything = at_once(asked.subscribe(ZERO_UUID, java, image))
    assert (everything.metrics, everything.interval_ms) == (["*"], 5000)


def test_a_subscription_change_resets_the_state_of_a_client() -> None:
    asked, clock = telemetry()
    mine = {"metrics": "a.", "interval.ms": "5000"}
    one = MetadataImage(configs={(16, "mine"): mine})
    _, instance = at_once(asked.subscribe(ME, APP, one))
    assert push(asked, instance.subscription_id, image=one, is_terminating=True) == 0
    other_things = MetadataImage(configs={(16, "mine"): mine, (2, "topic"): {"retention.ms": "1"}})
    assert push(asked, instance.subscription_id, image=other_things) == ErrorCode.INVALID_REQUEST
    set_again = MetadataImage(configs={(16, "mine"): dict(mine)})
    assert push(asked, instance.subscription_id, image=set_again) == 0
    clock.ms += 1
    assert push(asked, instance.subscription_id, image=set_again) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    not_mine = MetadataImage(configs={(16, "mine"): mine, (16, "other"): {"match": "client_id=nobody"}})
    _, again = at_once(asked.subscribe(ME, APP, not_mine))
    assert again.subscription_id == instance.subscription_id


def test_a_telemetry_client_does_not_reference_the_configurations() -> None:
    class Configs(dict[tuple[int, str], dict[str, str]]):
        """Dict whose changes can be watched."""

    asked, _ = telemetry()
    configs = Configs({(16, "mine"): {"metrics": "a."}})
    seen = weakref.ref(configs)
    at_once(asked.subscribe(ME, APP, MetadataImage(configs=configs)))
    at_once(asked.subscribe(UUID(int=99), APP, NOTHING))
    del configs
    gc.collect()
    assert seen() is None


def test_a_silent_client_is_forgotten_after_three_intervals() -> None:
    asked, clock = telemetry()
    often = MetadataImage(configs={(16, "often"): {"metrics": "a.", "interval.ms": "30000"}})
    _, instance = at_once(asked.subscribe(ME, APP, often))
    number = instance.subscription_id
    assert push(asked, number, image=often, is_terminating=True) == 0
    clock.ms += 89_999
    assert push(asked, number, image=often, is_terminating=True) == ErrorCode.INVALID_REQUEST
    clock.ms += 90_000
    assert push(asked, number, image=often) == 0


def test_after_unknown_subscription_id_one_early_request_is_allowed() -> None:
    asked, clock = telemetry()
    _, instance = at_once(asked.subscribe(ME, APP, NOTHING))
    clock.ms += 1
    assert push(asked, 5) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    _, again = at_once(asked.subscribe(ME, APP, NOTHING))
    assert again == instance
    with pytest.raises(KafkaError) as rejected:
        at_once(asked.subscribe(ME, APP, NOTHING))
    assert rejected.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_the_table_of_clients_is_bounded() -> None:
    asked, _ = telemetry()
    for number in range(CLIENTS_MAX + 3):
        at_once(asked.subscribe(UUID(int=number + 10), APP, NOTHING))
    assert len(asked._instances) == CLIENTS_MAX


def test_the_apis_answer_though_they_are_not_offered(client: RawClient) -> None:
    answer = client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
    assert (answer.error_code, answer.push_interval_ms, answer.requested_metrics) == (0, 300_000, [])
    assert answer.accepted_compression_types == [4, 3, 1, 2]
    again = client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=answer.client_instance_id), 0)
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    pushed = client.ask(
        PushTelemetryRequest(
            client_instance_id=answer.client_instance_id,
            subscription_id=answer.subscription_id,
            terminating=True,
            metrics=b"m",
        ),
        0,
    )
    assert pushed.error_code == 0


def test_the_memory_of_a_client_does_not_grow_with_its_metrics() -> None:
    asked, _ = telemetry()
    many = MetadataImage(configs={(16, "many"): {"metrics": ",".join(f"m{number}" for number in range(5000))}})
    _, reported = at_once(asked.subscribe(ZERO_UUID, APP, many))
    assert len(reported.metrics) == 5000
    tracemalloc.start()
    for _ in range(100):
        at_once(asked.subscribe(ZERO_UUID, APP, many))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 100_000
