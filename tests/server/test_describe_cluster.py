"""DescribeCluster on a controller: the response names a leader only together with its address."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.server.apis.cluster.describe_cluster import BROKERS, CONTROLLERS, handle_at_controller

LISTENER = "CONTROLLER"


def context(*registered: int, leader_id: int, listener: str = LISTENER, version: int = 2) -> Any:
    controllers = {
        controller_id: SimpleNamespace(
            controller_id=controller_id,
            endpoints=[SimpleNamespace(name=listener, host="localhost", port=9000 + controller_id)],
        )
        for controller_id in registered
    }
    metadata_log = SimpleNamespace(node=SimpleNamespace(quorum=SimpleNamespace(leader_id=leader_id)))
    services = SimpleNamespace(
        cluster_id="c", metadata_log=metadata_log, image=SimpleNamespace(controllers=controllers)
    )
    return SimpleNamespace(
        services=services, listener_name=LISTENER, version=version, allows_cluster_to=lambda operation: True
    )


@pytest.mark.parametrize(
    ("context", "controller_id", "listed"),
    [
        (context(1, 2, leader_id=2), 2, [1, 2]),
        (context(1, leader_id=2), -1, []),
        (context(leader_id=2), -1, []),
        (context(1, 2, leader_id=-1), -1, [1, 2]),
        (context(1, leader_id=1, listener="OTHER"), -1, []),
    ],
)
def test_no_controller_is_named_before_the_leader_has_an_address(
    context: Any, controller_id: int, listed: list[int]
) -> None:
    answer = handle_at_controller(DescribeClusterRequest(endpoint_type=CONTROLLERS), cast("Any", context))
    assert answer.controller_id == controller_id
    assert [each.broker_id for each in answer.brokers] == listed


@pytest.mark.parametrize(("version", "code"), [(0, ErrorCode.INVALID_REQUEST), (1, ErrorCode.MISMATCHED_ENDPOINT_TYPE)])
def test_a_controller_does_not_answer_for_brokers(version: int, code: ErrorCode) -> None:
    asked = DescribeClusterRequest(endpoint_type=BROKERS)
    answer = handle_at_controller(asked, context(1, leader_id=1, version=version))
    assert (answer.error_code, answer.brokers) == (code, [])
