"""Parser for the initial voters on a command line: id@host:port:directory, separated by commas.

Example: 1@localhost:9093:JEXY6aqzQY-32P5TStzaFg,2@[::1]:9094:MvDxzVmcRsaTz33bUuRU6A
"""

from __future__ import annotations

import re
from uuid import UUID

from kwire.cluster.directory_ids import is_reserved
from kwire.cluster.quorum.config import KRAFT_VERSION_MAX, KRAFT_VERSION_MIN
from kwire.cluster.quorum.voters import Listener, ReplicaKey, Voter, VoterSet
from kwire.protocol.uuids import uuid_from_text

_NODE_ID_MAX = 2**31 - 1
_PORT_MAX = 65535


class InvalidVoterError(ValueError):
    """The text does not describe a voter; the message says what is wrong."""


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """Return the voters, each with one listener of this name. Raises InvalidVoterError."""
    voters = [_voter(item.strip(), listener) for item in text.split(",") if item.strip()]
    if not voters:
        raise InvalidVoterError("No voters given.")
    ids = [voter.key.node_id for voter in voters]
    for node_id in ids:
        if ids.count(node_id) > 1:
            raise InvalidVoterError(f"Node id {node_id} was specified more than once.")
    return VoterSet(voters)


def initial_voter(key: ReplicaKey, listener: Listener) -> Voter:
    """Return a voter as formatting writes it, with the kraft.versions of this software."""
    return Voter(
        key=key, endpoints=(listener,), min_kraft_version=KRAFT_VERSION_MIN, max_kraft_version=KRAFT_VERSION_MAX
    )


def _voter(item: str, listener: str) -> Voter:
    number, at, rest = item.partition("@")
    if not at:
        raise InvalidVoterError(f"No @ found in dynamic voter string {item!r}.")
    if not _is_number(number) or int(number[:11]) > _NODE_ID_MAX:
        raise InvalidVoterError(f"Failed to parse node id in dynamic voter string {item!r}.")
    host, rest = _host(item, rest)
    port, colon, directory = rest.partition(":")
    if not colon:
        raise InvalidVoterError(f"No colon following port could be found in dynamic voter string {item!r}.")
    key = ReplicaKey(int(number), _directory_id(item, directory))
    return initial_voter(key, Listener(listener, host, _port(item, port)))


def _host(item: str, rest: str) -> tuple[str, str]:
    """Return the host, and the text after the colon that follows it."""
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise InvalidVoterError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise InvalidVoterError(f"No colon following hostname could be found in dynamic voter string {item!r}.")
        rest = rest[1:]
    else:
        host, colon, rest = rest.partition(":")
        if not colon:
            raise InvalidVoterError(f"No colon following hostname could be found in dynamic voter string {item!r}.")
    if not host:
        raise InvalidVoterError(f"No hostname found in dynamic voter string {item!r}.")
    return host, rest


def _port(item: str, text: str) -> int:
    if not _is_number(text):
        raise InvalidVoterError(f"Failed to parse port in dynamic voter string {item!r}.")
    if not 0 < int(text[:6]) <= _PORT_MAX:
        raise InvalidVoterError(f"Invalid port {text} in dynamic voter string {item!r}.")
    return int(text)


def _directory_id(item: str, text: str) -> UUID:
    try:
        directory_id = uuid_from_text(text)
    except ValueError:
        raise InvalidVoterError(f"Failed to parse directory ID in dynamic voter string {item!r}.") from None
    if is_reserved(directory_id):
        raise InvalidVoterError(f"Reserved directory ID in dynamic voter string {item!r}.")
    return directory_id


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]+", text) is not None
