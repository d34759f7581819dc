"""Watch of access control: the rights of a user change all the time, and no broker lets a request through against them.

A broker decides by the entries that it has. Each request of the user is sent between two descriptions of one broker. If
both have the same entries, the answer must follow from them. This includes decisions that a broker has cached, a broker
after a restart, and a broker that is cut off and has old entries.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence

from kwire.cluster.security.acls import Acl
from kwire.protocol.error_codes import ErrorCode
from tests.cluster_processes.brokers import BrokerNode
from tests.cluster_processes.secured import ACCESS_PORT, USER_PASSWORD
from tests.server.security.acl_requests import create, delete, describe, exactly
from tests.server.security.sasl.logins import log_in
from tests.support.access_rights import ABOUT_TOPICS, ENTRIES, GUARDED, USER, is_allowed
from tests.support.raw_client import RawClient
from tests.support.requests import batch, produce
from tests.support.waiting import eventually

PAUSE_SECONDS = 0.1
ANSWER_SECONDS = 3.0
END_SECONDS = 30.0


class AccessWatch:
    """Changes and checks in a thread, until it is finished."""

    def __init__(self, nodes: Sequence[BrokerNode], seed: int) -> None:
        self._nodes = nodes
        self._random = random.Random(seed)
        self._users: dict[int, RawClient] = {}
        """Connection of the user to each node, which outlives the changes."""
        self._stop = threading.Event()
        self.problems: list[str] = []
        self.checked: Counter[bool] = Counter()
        """Number of requests that were let through and that were refused, as they had to be."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Stop the changes; all nodes must have the same entries in time, and decide by them."""
        self.abandon()
        wanted: set[Acl] = set()
        try:
            for wanted in ({ENTRIES[0]}, set()):
                eventually(lambda: self._have_all(wanted), f"all nodes have the entries {wanted}", END_SECONDS)  # noqa: B023
        except AssertionError as error:
            self.problems.append(str(error))
        for client in self._users.values():
            client.close()

    def abandon(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(PAUSE_SECONDS):
                self._change(self._random.choice(self._nodes), self._random.choice(ENTRIES))
                for node in self._nodes:
                    self._check(node)
        except Exception as error:  # noqa: BLE001 the run reports it
            self.problems.append(f"the watch of access control ended: {error!r}")

    def _have_all(self, wanted: set[Acl]) -> bool:
        """Return whether all nodes have these entries; they are created or deleted where they are not."""
        for each in ENTRIES:
            self._change(self._nodes[0], each, is_wanted=each in wanted)
        return all(self._check(node) == wanted for node in self._nodes)

    def _change(self, node: BrokerNode, changed: Acl, *, is_wanted: bool | None = None) -> None:
        """Create or delete an entry at a node; nothing may happen if the node or the quorum does not answer."""
        if not node.is_answering:
            return
        wanted = self._random.random() < 0.5 if is_wanted is None else is_wanted
        try:
            with node.connect(ANSWER_SECONDS) as client:
                create(client, changed) if wanted else delete(client, exactly(changed))
        except OSError:
            return

    def _check(self, node: BrokerNode) -> set[Acl] | None:
        """Return the entries of a node that the answer to the user was compared with; None if there was no answer."""
        if not node.is_answering:
            return None
        try:
            with node.connect(ANSWER_SECONDS) as client:
                before = describe(client, ABOUT_TOPICS)
                code = self._ask(node)
                if describe(client, ABOUT_TOPICS) != before:
                    return None
        except OSError:
            self._forget(node)
            return None
        is_let_through = code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if is_let_through != is_allowed(before):
            self.problems.append(f"broker {node.node_id} answered {code.name} with the entries {before}")
        self.checked[is_let_through] += 1
        return before

    def _ask(self, node: BrokerNode) -> ErrorCode:
        """Let the user write a record; return the error code. Raises OSError."""
        client = self._users.get(node.node_id)
        if client is None:
            with node.inside():
                client = RawClient(f"{node.host}:{ACCESS_PORT}")
            client.socket.settimeout(ANSWER_SECONDS)
            self._users[node.node_id] = client
            if refused := log_in(client, "PLAIN", USER, USER_PASSWORD):
                self.problems.append(f"broker {node.node_id} refused the login: {refused}")
        return ErrorCode(produce(client, GUARDED, batch(b"written"), acks=1).error_code)

    def _forget(self, node: BrokerNode) -> None:
        if (client := self._users.pop(node.node_id, None)) is not None:
            client.close()
