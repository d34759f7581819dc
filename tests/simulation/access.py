"""Access control in a simulated cluster whose brokers and controllers log in at each other.

A user writes to a topic while its rights change, between two descriptions of the same broker. If both have the same
entries, the answer must follow from them. At any moment, the authorizer of each node has the entries of its image.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from kwire.cluster.security.acls import Acl
from kwire.cluster.security.standard_authorizer import StandardAuthorizer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.server.node.authorizers import STANDARD
from kwire.server.security.sasl.jaas import PLAIN_MODULE
from kwire.simulation import ClusterBroker, SimulatedCluster, Simulation, WireClient
from tests.server.security.acl_requests import create_request, delete_request, describe_request, described, exactly
from tests.simulation.cluster_clients import Client
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.connections import GIVE_UP_SECONDS
from tests.support.access_rights import ABOUT_TOPICS, ENTRIES, GUARDED, USER, is_allowed
from tests.support.requests import batch, produce_request

NODE: Final = "node"
INTERNAL: Final = "INTERNAL"
PAUSE_SECONDS: Final = 0.7
CREATED: Final = 0.5
"""Probability that an entry is created; else it is deleted."""
HEALED_SECONDS: Final = 30.0


def secured_config() -> dict[str, object]:
    """Return the settings of nodes that log in at each other with PLAIN, which uses no random numbers."""
    users = " ".join(f'user_{name}="{name}-secret"' for name in (NODE, USER))
    login = f'{PLAIN_MODULE} required username="{NODE}" password="{NODE}-secret" {users};'
    return {
        "inter.broker.listener.name": INTERNAL,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INTERNAL}:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **{f"listener.name.{name}.plain.sasl.jaas.config": login for name in (INTERNAL.lower(), "controller")},
        "authorizer.class.name": STANDARD,
        "super.users": f"User:{NODE};User:ANONYMOUS",
    }


class AccessRules:
    """Rule of the authorizers of all nodes at any moment."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._nodes = cluster.nodes

    def look(self) -> None:
        """Compare the entries of each authorizer with those of the image that its node has published."""
        for node in self._nodes:
            opened = node.open_node
            if opened is None or not node.is_serving:
                continue
            authorizer = opened.authorizer
            if isinstance(authorizer, StandardAuthorizer):
                known, stored = set(authorizer._index._ids), set(opened.metadata_log.image.acls.values())
                assert known == stored, f"{node.name} decides by {known}, and its image has {stored}"


class RightsKeeper(Client):
    """Client that changes the user's rights, and sends the user's requests."""

    def __init__(self, simulation: Simulation, brokers: Sequence[ClusterBroker], ledger: Ledger) -> None:
        super().__init__(simulation, brokers, ledger, "rights")
        self._users: dict[int, WireClient] = {}
        """Connection of the user to each broker."""

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            await asyncio.sleep(self._random_source.exponential(PAUSE_SECONDS))
            with suppress(OSError):
                is_created = self._random_source.happens(CREATED)
                await self.change(self._random_source.pick(ENTRIES), is_created=is_created)
            await self.compare(self._anyone())
        self.close()

    async def conclude(self) -> None:
        """After all faults, let all brokers have one entry, and check each; then none. Raises AssertionError."""
        for wanted in ({ENTRIES[0]}, set[Acl]()):
            until = self._simulation.now + HEALED_SECONDS
            while not await self._have_all(wanted):
                assert self._simulation.now < until, f"a broker does not have the entries {wanted}"
                await asyncio.sleep(PAUSE_SECONDS)
        self.close()

    async def _have_all(self, wanted: set[Acl]) -> bool:
        with suppress(OSError):
            for each in ENTRIES:
                await self.change(each, is_created=each in wanted)
            return all([await self.compare(node_id) == wanted for node_id in sorted(self._brokers)])
        return False

    async def change(self, changed: Acl, *, is_created: bool) -> None:
        """Create or delete an entry. Raises OSError."""
        if is_created:
            await self.ask(self._anyone(), create_request(changed), 3)
        else:
            await self.ask(self._anyone(), delete_request(exactly(changed)), 3)

    async def compare(self, node_id: int) -> set[Acl] | None:
        """Let the user write at a broker. Return the entries that the answer followed from; None if it is unknown."""
        try:
            before = described(await self.ask(node_id, describe_request(ABOUT_TOPICS), 3))
            code = await self._write(node_id)
            if described(await self.ask(node_id, describe_request(ABOUT_TOPICS), 3)) != before:
                return None
        except OSError:
            if (wire := self._users.pop(node_id, None)) is not None:
                wire.close()
            return None
        is_let_through = code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert is_let_through == is_allowed(before), f"broker {node_id} answered {code.name} with {before}"
        self._ledger.checked[is_let_through] += 1
        return before

    async def _write(self, node_id: int) -> ErrorCode:
        """Send a record as the user. Raises OSError."""
        wire = self._users.get(node_id)
        if wire is None:
            wire = await WireClient.connect(self._brokers[node_id].inter_broker_server, seconds=GIVE_UP_SECONDS)
            self._users[node_id] = wire
            await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, seconds=GIVE_UP_SECONDS)
            token = f"\0{USER}\0{USER}-secret".encode()
            answer = await wire.ask(SaslAuthenticateRequest(auth_bytes=token), 2, seconds=GIVE_UP_SECONDS)
            assert answer.error_code == ErrorCode.NONE, f"broker {node_id} refuses the user: {answer}"
        request = produce_request(GUARDED, batch(b"written"), acks=1)
        answer = await wire.ask(request, 11, seconds=GIVE_UP_SECONDS)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def close(self) -> None:
        """Close all connections."""
        super().close()
        for wire in self._users.values():
            wire.close()
        self._users.clear()
