"""Client telemetry (KIP-714) on a broker without a telemetry receiver: requests get a response all the same."""

import uuid

import pytest

from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest

THROTTLED, INVALID, NO_COMPRESSION, NO_SUBSCRIPTION, TOO_LARGE = 89, 42, 76, 117, 118


def subscribe(peer, instance_id):
    return peer.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


def push(peer, instance_id, subscription_id, *, terminating=False, compression_type=0, metrics=b"m"):
    request = PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        terminating=terminating,
        compression_type=compression_type,
        metrics=metrics,
    )
    return peer.ask(request, 0).error_code


def test_a_new_client_gets_an_id_and_nothing_to_send(peer):
    answer = subscribe(peer, uuid.UUID(int=0))
    assert answer.error_code == 0
    assert answer.client_instance_id.int > 1000
    assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (300_000, 1_048_576)
    assert (answer.accepted_compression_types, answer.requested_metrics) == ([4, 3, 1, 2], [])
    assert answer.delta_temporality
    assert subscribe(peer, answer.client_instance_id).error_code == THROTTLED


def test_a_push_after_the_terminating_push_is_rejected(peer):
    number = subscribe(peer, me := uuid.uuid4()).subscription_id
    assert push(peer, me, number, terminating=True) == 0
    assert push(peer, me, number) == INVALID


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"compression_type": 9}, NO_COMPRESSION),
        ({"metrics": b"x" * (1_048_576 + 1)}, TOO_LARGE),
        ({"subscription_id": 7}, NO_SUBSCRIPTION),
        ({"instance_id": uuid.UUID(int=0)}, INVALID),
        ({"instance_id": uuid.UUID(int=12345)}, NO_SUBSCRIPTION),
    ],
)
def test_pushes_are_checked(peer, changes, code):
    me = uuid.uuid4()
    number = subscribe(peer, me).subscription_id
    wanted = {"instance_id": me, "subscription_id": number} | changes
    assert push(peer, **wanted) == code
