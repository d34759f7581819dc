"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

import asyncio
import socket

from kwire.chunks import in_turns, mapped
from kwire.cluster.client_quotas import IP, QuotaEntity, make_entity
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasEntryResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api
from kwire.server.services import of_controller


async def handle(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    if not context.allows_cluster():
        return refuse(request, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    wishes = await in_turns(mapped(request.entries, _wish))
    hosts = await _resolvable({name for entity, _ in wishes for kind, name in entity if kind == IP and name})
    outcomes = await of_controller(context).controller.alter_client_quotas(
        wishes, is_host=hosts.__contains__, validate_only=request.validate_only
    )
    entries = await in_turns(mapped(outcomes.items(), lambda outcome: _entry(*outcome)))
    return AlterClientQuotasResponse(entries=entries)


def refuse(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_entry(_entity(entry), error) for entry in request.entries])


def _wish(entry: AlterClientQuotasEntry) -> tuple[QuotaEntity, list[tuple[str, float | None]]]:
    return _entity(entry), [(operation.key, None if operation.remove else operation.value) for operation in entry.ops]


def _entity(entry: AlterClientQuotasEntry) -> QuotaEntity:
    return make_entity((each.entity_type, each.entity_name) for each in entry.entity)


async def _resolvable(names: set[str]) -> set[str]:
    """The names that stand for an address."""
    loop = asyncio.get_running_loop()
    found = set()
    for name in names:
        try:
            await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, ValueError):  # of the latter kind: what is no name at all
            continue
        found.add(name)
    return found


def _entry(entity: QuotaEntity, error: KafkaError | None) -> AlterClientQuotasEntryResponse:
    return AlterClientQuotasEntryResponse(
        error_code=error.code if error else 0,
        error_message=error.message or error.code.meaning if error else None,
        entity=[AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity],
    )


API = Api(request=AlterClientQuotasRequest, response=AlterClientQuotasResponse, handle=handle)
