"""Plan for SCRAM credentials: from a request to records, with Kafka's checks and wording (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kwire.chunks import CHUNK, Pieces, chunks
from kwire.cluster.metadata.image import MetadataImage
from kwire.cluster.metadata.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_record,
    make_credential,
)
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import RemoveUserScramCredentialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """Deletion of a user's credential for one mechanism, by its number."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """New credential of a user for one mechanism; it replaces the one before."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


ScramAlteration = ScramDeletion | ScramUpsertion


def rejections(image: MetadataImage, alterations: Sequence[ScramAlteration]) -> Pieces[dict[str, KafkaError]]:
    """Return the errors of users whose alterations are not made: the first error of each, or a second alteration."""
    errors: dict[str, KafkaError] = {}
    seen: set[str] = set()
    for some in chunks(alterations):
        for each in some:
            if each.user in errors:
                continue
            try:
                if each.user in seen:
                    raise KafkaError(
                        ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                    )
                _mechanism(image, each)
            except KafkaError as error:
                errors[each.user] = error.without_traceback()
            seen.add(each.user)
        if len(some) == CHUNK:
            yield
    return errors


def plan_scram(image: MetadataImage, alteration: ScramAlteration) -> list[Any]:
    """Return the records of one alteration. Raises KafkaError."""
    user, mechanism = alteration.user, _mechanism(image, alteration)
    if isinstance(alteration, ScramDeletion):
        return [RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)]
    credential = make_credential(
        mechanism, alteration.salted_password, salt=alteration.salt, iterations=alteration.iterations
    )
    return [credential_record(user, mechanism, credential)]


def _mechanism(image: MetadataImage, alteration: ScramAlteration) -> ScramMechanism:
    """Return the mechanism of a valid alteration. Raises KafkaError."""
    if not alteration.user:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    try:
        mechanism = ScramMechanism(alteration.mechanism)
    except ValueError:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None
    if isinstance(alteration, ScramUpsertion):
        _check(alteration)
    elif mechanism not in image.scram.get(alteration.user, {}):
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return mechanism


def _check(upsertion: ScramUpsertion) -> None:
    if upsertion.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not upsertion.salt:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt must not be empty")
    if not upsertion.salted_password:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
