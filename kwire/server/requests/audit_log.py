"""Audit log: one line for each decision of the authorizer, in the form of Kafka's.

Denied requests are logged at INFO, allowed ones at DEBUG. Decisions that only filter a response, such as a list of all
topics, are logged at DEBUG too: the client has not asked for these resources. Names that clients chose are escaped, so
that no name can end the line. A repeated line is counted and not written, and so are lines above a rate: repeated
ones do not count for it, so that one client cannot keep the lines of others out with them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kwire.repeated_messages import RepeatedMessages

if TYPE_CHECKING:
    from kwire.cluster.security.acls import Operation, ResourceType
    from kwire.protocol.api_keys import ApiKey
    from kwire.server.requests.context import RequestContext

logger = logging.getLogger(__name__)

LINES_PER_SECOND_MAX: Final = 200
"""Different lines that are written in one second; the others are counted."""
SHOWN_MAX: Final = 512
"""Most characters that are shown of a name."""
_SHOWN_NAMES: Final = {"TRANSACTIONAL_ID": "TransactionalId", "DELEGATION_TOKEN": "DelegationToken"}


class AuditLog:
    """Audit log of one node."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._messages = RepeatedMessages(logger, now_ms)
        self._second = 0
        self._lines = 0
        self._omitted = 0

    def has_all(self) -> bool:
        """Return True if allowed requests are logged too."""
        return logger.isEnabledFor(logging.DEBUG)

    def write(
        self,
        context: RequestContext[Any],
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        is_allowed: bool,
        is_requested: bool,
    ) -> None:
        """Log a decision; `is_requested` is False if the client has not named the resource."""
        level = logging.INFO if is_requested and not is_allowed else logging.DEBUG
        if not logger.isEnabledFor(level):
            return
        client = context.connection
        question = client.principal, client.peer_host, operation, resource, name
        subject = context.api_key, is_allowed, *question[:-1], shown(name)
        if self._messages.suppresses(subject) or not self._may_write():
            return
        self._messages.log(
            level,
            subject,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "based on rule %s",
            shown(client.principal),
            "Allowed" if is_allowed else "Denied",
            operation.name,
            client.peer_host,
            _SHOWN_NAMES.get(resource.name, resource.name.capitalize()),
            shown(name),
            shown_api(context.api_key),
            shown(context.services.authorizer.reason(*question)),
        )

    def _may_write(self) -> bool:
        second = int(self._now_ms() // 1000)
        if second != self._second:
            if self._omitted:
                logger.warning("%d decisions are missing in the audit log: too many in a second", self._omitted)
            self._second, self._lines, self._omitted = second, 0, 0
        self._lines += 1
        if self._lines <= LINES_PER_SECOND_MAX:
            return True
        self._omitted += 1
        return False


def shown_api(key: ApiKey) -> str:
    """Return the name of an API as Kafka writes it, such as CreateTopics."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def shown(text: str) -> str:
    """Return a text that a client chose, for a log line: shortened, other characters than printable ones escaped."""
    start = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
    return start if start.isprintable() else start.encode("unicode_escape").decode("ascii")
