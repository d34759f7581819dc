"""Formatting of all directories of one node, before its first start.

The metadata directory is formatted last: after a crash before it, the node does not start, and a second call completes
the formatting. Directories that are already formatted are never written to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.directory import META_PROPERTIES, DirectoryRejected, MetaProperties, is_blank, load_meta_properties
from kwire.cluster.formatting.formatting import make_durably, write_directory
from kwire.cluster.formatting.initial_features import RELEASE_NAMES
from kwire.cluster.metadata.features import METADATA_VERSION
from kwire.cluster.metadata.scram import ScramMechanism
from kwire.cluster.quorum.voters import VoterSet
from kwire.log.disk import Disk, DiskFailure, DiskLock
from kwire.log.log_directories import LOCK_FILE
from kwire.protocol.messages.metadata_records import UserScramCredentialRecord
from kwire.seams import Clock, RandomSource

Say = Callable[[str], None]


class FormatRejected(Exception):  # noqa: N818 named after what happened
    """A node cannot be formatted; the message is one line with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFormat:
    """Formatting request: the identity, directories and initial contents of one node."""

    cluster_id: str
    node_id: int
    log_dirs: tuple[str, ...]
    metadata_dir: str
    """Metadata directory; may be one of log_dirs."""
    features: Mapping[str, int]
    voters: VoterSet | None
    """Initial voters of the metadata log; None with configured voters and for an observer."""
    credentials: tuple[UserScramCredentialRecord, ...] = ()
    """SCRAM credentials of the cluster's first users."""

    @property
    def directories(self) -> list[str]:
        """All directories, the metadata directory last."""
        return [*sorted(set(self.log_dirs) - {self.metadata_dir}), self.metadata_dir]

    def kind_of(self, directory: str) -> str:
        """Return the kind of a directory in the words of Kafka's tool."""
        if directory != self.metadata_dir:
            return "data directory"
        if self.voters is None:
            return "metadata directory"
        return "dynamic metadata voter directory" if self.is_voter else "dynamic metadata directory"

    @property
    def is_voter(self) -> bool:
        return self.voters is not None and self.node_id in self.voters.ids

    def in_words(self) -> Iterator[str]:
        """Yield the initial feature levels, and the owners of the credentials without their secrets."""
        for name, level in self.features.items():
            yield f"{name}={level}"
        for each in self.credentials:
            yield f"{ScramMechanism(each.mechanism).sasl_name} of {each.name}"

    def directory_id(self, directory: str, random_source: RandomSource) -> UUID:
        """Return a new id, or for a voter's metadata directory the id in the voter set."""
        voter = self.voters.get(self.node_id) if self.voters is not None else None
        if voter is not None and directory == self.metadata_dir:
            return voter.key.directory_id
        return random_source.uuid()


def format_node(
    plan: NodeFormat,
    *,
    disk: Disk,
    random_source: RandomSource,
    clock: Clock,
    say: Say,
    ignore_formatted: bool = False,
) -> None:
    """Format the blank directories. Raises FormatRejected or DirectoryRejected before it writes, or if a disk fails."""
    blank = _blank_directories(plan, disk, say, ignore_formatted=ignore_formatted)
    if not blank:
        say("All of the log directories are already formatted.")
        return
    say("Bootstrap metadata: " + ", ".join(plan.in_words()))
    release = RELEASE_NAMES[plan.features[METADATA_VERSION]]
    for directory in blank:
        say(f"Formatting {plan.kind_of(directory)} {directory} with {METADATA_VERSION} {release}.")
        try:
            _format(plan, directory, disk=disk, random_source=random_source, now_ms=clock.wall_ms())
        except DiskFailure as failure:
            raise FormatRejected(f"Error while formatting {directory}: {failure}") from failure


def _blank_directories(plan: NodeFormat, disk: Disk, say: Say, *, ignore_formatted: bool) -> list[str]:
    known: dict[str, MetaProperties] = {}
    blank = []
    for directory in plan.directories:
        try:
            meta = _identity(disk, directory)
        except DiskFailure:
            say(f"I/O error trying to read log directory {directory}. Ignoring...")
            continue
        if meta is None:
            blank.append(directory)
        else:
            known[directory] = meta
    for directory, meta in known.items():
        _check_is_of_node(plan, directory, meta)
    if known and not ignore_formatted:
        raise FormatRejected(
            f"Log directory {next(iter(known))} is already formatted. Use --ignore-formatted to ignore this directory "
            "and format the others."
        )
    if not known and not blank:
        raise FormatRejected("No available log directories to format.")
    return blank


def _identity(disk: Disk, directory: str) -> MetaProperties | None:
    """Return the identity of a formatted directory; None for a blank one."""
    if disk.exists(directory) and not disk.is_directory(directory):
        raise DirectoryRejected(f"log.dirs: {directory} is not a directory; name another one")
    if is_blank(disk, directory):
        return None
    meta = load_meta_properties(disk, directory)
    if meta is None:
        raise DirectoryRejected(
            f"log.dirs: {directory} holds files but no {META_PROPERTIES}; formatting it would lose them: empty it, or "
            "name another one"
        )
    return meta


def _check_is_of_node(plan: NodeFormat, directory: str, meta: MetaProperties) -> None:
    path = f"{directory}/{META_PROPERTIES}"
    if meta.cluster_id != plan.cluster_id:
        raise FormatRejected(f"Invalid cluster.id in: {path}. Expected {plan.cluster_id}, but read {meta.cluster_id}")
    if meta.node_id != plan.node_id:
        raise FormatRejected(f"Invalid node.id in: {path}. Expected {plan.node_id}, but read {meta.node_id}")


def _format(plan: NodeFormat, directory: str, *, disk: Disk, random_source: RandomSource, now_ms: int) -> None:
    make_durably(disk, directory)
    lock = _lock(disk, directory)
    try:
        if not is_blank(disk, directory):
            raise FormatRejected(f"Log directory {directory} was formatted by another process just now.")
        write_directory(
            disk,
            directory,
            MetaProperties(
                cluster_id=plan.cluster_id,
                node_id=plan.node_id,
                directory_id=plan.directory_id(directory, random_source),
            ),
            features=plan.features,
            credentials=plan.credentials,
            voters=plan.voters if directory == plan.metadata_dir else None,
            now_ms=now_ms,
        )
    finally:
        lock.release()


def _lock(disk: Disk, directory: str) -> DiskLock:
    lock = disk.lock(f"{directory}/{LOCK_FILE}")
    if lock is None:
        raise FormatRejected(f"Log directory {directory} is in use by another process.")
    return lock
