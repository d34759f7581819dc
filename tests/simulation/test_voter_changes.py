"""Voters that leave a simulated quorum and return, by requests over the wire (KIP-853)."""

from __future__ import annotations

import asyncio
from typing import Any

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.simulation.controllers import CLUSTER_ID, LISTENER, PORT, directory_id
from tests.simulation.test_broker_control import Cluster, run


async def change(cluster: Cluster, request: Any, version: int) -> int:
    """Return the first response without a retriable error."""
    while True:
        answer = await cluster.ask(request, version)
        if answer.error_code != ErrorCode.REQUEST_TIMED_OUT:
            code: int = answer.error_code
            return code
        await asyncio.sleep(0.1)


def voters(cluster: Cluster) -> set[int]:
    leader = cluster.leader()
    assert leader is not None
    return set(leader.server.metadata_log.node.quorum.history.voters.ids)


def test_a_voter_is_removed_and_added_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        while (leader := cluster.leader()) is None:
            await asyncio.sleep(0.1)
        node = next(each for each in cluster.nodes if each is not leader)
        key: dict[str, Any] = {"voter_id": node.node_id, "voter_directory_id": directory_id(node.node_id)}
        removal = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, **key)
        assert await change(cluster, removal, 0) == ErrorCode.NONE
        assert voters(cluster) == {1, 2, 3} - {node.node_id}
        listeners = [AddRaftVoterListener(name=LISTENER, host=node.host.name, port=PORT)]
        addition = AddRaftVoterRequest(cluster_id=CLUSTER_ID, timeout_ms=5000, listeners=listeners, **key)
        async with asyncio.timeout(60):
            assert await change(cluster, addition, 1) == ErrorCode.NONE
        assert voters(cluster) == {1, 2, 3}
        assert await change(cluster, addition, 1) == ErrorCode.DUPLICATE_VOTER

    run(scenario)
