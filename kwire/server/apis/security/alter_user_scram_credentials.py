"""AlterUserScramCredentials: set and delete SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.chunks import Pieces, in_turns, mapped
from kwire.cluster.controller.plans.scram import ScramAlteration, ScramDeletion, ScramUpsertion
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext


async def handle_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: ControllerContext
) -> AlterUserScramCredentialsResponse:
    if not context.allows_cluster():
        return await in_turns(reject(request, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))
    alterations: list[ScramAlteration] = [
        *await in_turns(mapped(request.deletions, _deletion)),
        *await in_turns(mapped(request.upsertions, _upsertion)),
    ]
    outcomes = await context.services.controller.alter_scram(alterations)
    return await in_turns(_response(outcomes.items()))


def reject(request: AlterUserScramCredentialsRequest, error: KafkaError) -> Pieces[AlterUserScramCredentialsResponse]:
    deleted = yield from mapped(request.deletions, lambda each: each.name)
    upserted = yield from mapped(request.upsertions, lambda each: each.name)
    return (yield from _response((user, error) for user in dict.fromkeys([*deleted, *upserted])))


def _deletion(deletion: ScramCredentialDeletion) -> ScramDeletion:
    return ScramDeletion(user=deletion.name, mechanism=deletion.mechanism)


def _upsertion(upsertion: ScramCredentialUpsertion) -> ScramUpsertion:
    return ScramUpsertion(
        user=upsertion.name,
        mechanism=upsertion.mechanism,
        iterations=upsertion.iterations,
        salt=bytes(upsertion.salt),
        salted_password=bytes(upsertion.salted_password),
    )


def _response(outcomes: Iterable[tuple[str, KafkaError | None]]) -> Pieces[AlterUserScramCredentialsResponse]:
    return AlterUserScramCredentialsResponse(results=(yield from mapped(outcomes, lambda outcome: _result(*outcome))))


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=error.code if error else 0,
        error_message=error.message or error.code.meaning if error else None,
    )


API = Api(
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
    handle=handle_alter_user_scram_credentials,
)
