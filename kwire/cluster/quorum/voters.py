"""Voters of the quorum: replicas by (id, directory id), their endpoints, and the set of them.

A voter is identified by its id and its directory id: a node that returns with an empty disk is another replica
(KIP-853). In clusters with kraft.version 0 voters are configured by id alone, and the directory id is the zero UUID.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self
from uuid import UUID

from kwire.protocol.messages.control_records import (
    VotersEndpoint,
    VotersKRaftVersionFeature,
    VotersRecord,
    VotersVoter,
)
from kwire.protocol.primitives import ZERO_UUID


class ReplicaKey(NamedTuple):
    """Identity of a replica of the metadata log; the zero directory id means that it is not known."""

    node_id: int
    directory_id: UUID = ZERO_UUID


class Listener(NamedTuple):
    """Address of a node's listener, with the listener's name."""

    name: str
    host: str
    port: int


Endpoints = tuple[Listener, ...]


def endpoint_of(endpoints: Endpoints, name: str) -> Listener | None:
    """Return the listener with this name; None if there is none."""
    return next((listener for listener in endpoints if listener.name == name), None)


class Voter(NamedTuple):
    """Voter with its endpoints and supported versions."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 0

    def supports(self, kraft_version: int) -> bool:
        return self.min_kraft_version <= kraft_version <= self.max_kraft_version


class VoterSet:
    """Immutable set of voters, by id."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters = {voter.key.node_id: voter for voter in sorted(voters, key=lambda voter: voter.key.node_id)}

    def __len__(self) -> int:
        return len(self._voters)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(tuple(self._voters.values()))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(node_id) for node_id in self._voters)})"

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(self._voters)

    @property
    def keys(self) -> list[ReplicaKey]:
        return [voter.key for voter in self]

    @property
    def majority(self) -> int:
        """Number of voters that form a majority."""
        return len(self._voters) // 2 + 1

    def get(self, node_id: int) -> Voter | None:
        return self._voters.get(node_id)

    def endpoints(self, node_id: int) -> Endpoints:
        """Return the endpoints of a voter; empty if the id is not a voter's."""
        voter = self._voters.get(node_id)
        return voter.endpoints if voter is not None else ()

    def is_voter(self, key: ReplicaKey) -> bool:
        """Return True if the replica may vote: the directory id must match if the set contains it."""
        voter = self._voters.get(key.node_id)
        return voter is not None and voter.key.directory_id in (ZERO_UUID, key.directory_id)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self._voters) == 1 and self.is_voter(key)

    # --- changes: each returns another set, or None if the change is invalid

    def add(self, voter: Voter) -> VoterSet | None:
        if voter.key.node_id in self._voters:
            return None
        return VoterSet([*self, voter])

    def remove(self, key: ReplicaKey) -> VoterSet | None:
        """Return the set without exactly this voter; None for the last one."""
        voter = self._voters.get(key.node_id)
        if voter is None or voter.key != key or len(self._voters) == 1:
            return None
        return VoterSet(other for other in self if other is not voter)

    def update(self, voter: Voter) -> VoterSet | None:
        """Return the set with other endpoints and versions of a voter; an unknown directory id may become known."""
        if not self.is_voter(voter.key):
            return None
        return VoterSet([*(other for other in self if other.key.node_id != voter.key.node_id), voter])

    def overlaps_majority(self, other: VoterSet) -> bool:
        """Return True if each majority of one set overlaps each majority of the other: at most one voter differs."""
        common = sum(1 for voter in self if other.has_same(voter.key))
        return len(self) - common + len(other) - common <= 1

    def has_same(self, key: ReplicaKey) -> bool:
        """Return True if the set has this voter; a directory id that one side does not know is no difference."""
        voter = self._voters.get(key.node_id)
        return voter is not None and (
            voter.key.directory_id == key.directory_id or ZERO_UUID in (voter.key.directory_id, key.directory_id)
        )

    # --- records

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            voters=[
                VotersVoter(
                    voter_id=voter.key.node_id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[VotersEndpoint(name=it.name, host=it.host, port=it.port) for it in voter.endpoints],
                    kraft_version_feature=VotersKRaftVersionFeature(
                        min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
                    ),
                )
                for voter in self
            ]
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> Self:
        return cls(
            Voter(
                key=ReplicaKey(voter.voter_id, voter.voter_directory_id),
                endpoints=tuple(Listener(it.name, it.host, it.port) for it in voter.endpoints),
                min_kraft_version=voter.kraft_version_feature.min_supported_version,
                max_kraft_version=voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )

    @classmethod
    def static(cls, voters: Iterable[tuple[int, str, int]], listener: str) -> Self:
        """Return the voters of controller.quorum.voters, given as (id, host, port)."""
        return cls(
            Voter(key=ReplicaKey(node_id), endpoints=(Listener(listener, host, port),))
            for node_id, host, port in voters
        )
