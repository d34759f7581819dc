"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from kwire.chunks import Pieces, in_turns, mapped, mapped_in_pieces
from kwire.cluster.metadata.client_quotas import IP, QuotaEntity, make_entity
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasEntryResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext


async def handle_alter_client_quotas(
    request: AlterClientQuotasRequest, context: ControllerContext
) -> AlterClientQuotasResponse:
    if not context.allows_cluster():
        return await in_turns(reject(request, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))
    requested = await in_turns(mapped_in_pieces(request.entries, _requested))
    hosts = await _resolvable(await in_turns(mapped(requested, lambda alteration: dict(alteration[0]).get(IP))))
    outcomes = await context.services.controller.alter_client_quotas(
        requested, is_host=hosts.__contains__, validate_only=request.validate_only
    )
    entries = await in_turns(mapped_in_pieces(outcomes.items(), lambda outcome: _entry(*outcome)))
    return AlterClientQuotasResponse(entries=entries)


def reject(request: AlterClientQuotasRequest, error: KafkaError) -> Pieces[AlterClientQuotasResponse]:
    entities = yield from mapped_in_pieces(request.entries, _entity)
    entries = yield from mapped_in_pieces(entities, lambda entity: _entry(entity, error))
    return AlterClientQuotasResponse(entries=entries)


def _requested(entry: AlterClientQuotasEntry) -> Pieces[tuple[QuotaEntity, list[tuple[str, float | None]]]]:
    entity = yield from _entity(entry)
    return entity, (yield from mapped(entry.ops, lambda each: (each.key, None if each.remove else each.value)))


def _entity(entry: AlterClientQuotasEntry) -> Pieces[QuotaEntity]:
    return make_entity((yield from mapped(entry.entity, lambda each: (each.entity_type, each.entity_name))))


async def _resolvable(names: Iterable[str | None]) -> set[str]:
    """Return the names that resolve to an address."""
    loop = asyncio.get_running_loop()
    found = set()
    for name in filter(None, set(names)):
        try:
            await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, ValueError):  # ValueError: not a valid name
            continue
        found.add(name)
    return found


def _entry(entity: QuotaEntity, error: KafkaError | None) -> Pieces[AlterClientQuotasEntryResponse]:
    names = yield from mapped(entity, lambda each: AlterClientQuotasEntity(entity_type=each[0], entity_name=each[1]))
    return AlterClientQuotasEntryResponse(
        error_code=error.code if error else 0,
        error_message=error.message or error.code.meaning if error else None,
        entity=names,
    )


API = Api(request=AlterClientQuotasRequest, response=AlterClientQuotasResponse, handle=handle_alter_client_quotas)
