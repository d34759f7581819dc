"""Log directories at start: they are locked, checked, and formatted if that cannot create a second cluster by mistake.

A blank directory is formatted only if no quorum is configured: an unmounted volume of a configured node looks blank
too, and must not become a new cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.directory import DirectoryRejected, MetaProperties, is_blank, load_meta_properties
from kwire.cluster.formatting.formatting import format_directory, make_durably, write_identity
from kwire.log.disk import Disk, DiskFailure, DiskLock
from kwire.log.files import METADATA_DIRECTORY
from kwire.log.log_directories import LOCK_FILE
from kwire.protocol.uuids import uuid_to_text
from kwire.seams import Clock, RandomSource
from kwire.server.settings.config import BrokerConfig

logger = logging.getLogger(__name__)

DEFAULT_CONTROLLER_PORT = 9093


class UnreadableDirectory(DirectoryRejected):
    """Error of a directory whose device cannot be read or locked."""


@dataclass(slots=True, kw_only=True)
class Storage:
    """Directories that this process owns until release."""

    cluster_id: str
    directory_ids: dict[str, UUID]
    """Directory ids by path, in the order of log.dirs, without unreadable directories."""
    metadata_directory_id: UUID
    """Id of the metadata log's directory, which need not be one of log.dirs: the voter's directory id."""
    locks: dict[str, DiskLock]
    """Locks by path; handed over to the log manager, which releases them."""

    def release(self) -> None:
        for lock in self.locks.values():
            lock.release()


def open_storage(config: BrokerConfig, *, disk: Disk, clock: Clock, random_source: RandomSource) -> Storage:
    """Lock, check and, if needed, format the directories. Raises DirectoryRejected, and then nothing has changed.

    A directory whose device fails is left out, and the others are served; without the metadata's directory, it raises.
    """
    directories = list(dict.fromkeys((config.metadata_dir, *config.log_dirs)))
    locks: dict[str, DiskLock] = {}
    try:
        found: dict[str, MetaProperties | None] = {}
        for directory in directories:
            try:
                found[directory] = _open_directory(config, disk, directory, locks)
            except UnreadableDirectory as error:
                if directory == config.metadata_dir:
                    raise
                logger.error("%s; its partitions are offline", error)  # noqa: TRY400 no traceback needed
        identities = _complete(config, found, disk=disk, clock=clock, random_source=random_source, locks=locks)
    except BaseException:
        for lock in locks.values():
            lock.release()
        raise
    cluster_id = next(iter(identities.values())).cluster_id
    return Storage(
        cluster_id=cluster_id,
        directory_ids={
            directory: identities[directory].directory_id for directory in config.log_dirs if directory in identities
        },
        metadata_directory_id=identities[config.metadata_dir].directory_id,
        locks=locks,
    )


def _open_directory(
    config: BrokerConfig, disk: Disk, directory: str, locks: dict[str, DiskLock]
) -> MetaProperties | None:
    """Return the directory's identity, None if it is blank."""
    try:
        if disk.exists(directory) and not disk.is_directory(directory):
            raise DirectoryRejected(f"log.dirs: {directory} is not a directory; name another one")
        blank = is_blank(disk, directory)
        meta = load_meta_properties(disk, directory) if not blank else None
    except DiskFailure as failure:
        raise UnreadableDirectory(f"log.dirs: {failure}; make the directory readable or name another one") from failure
    if meta is None:
        if not blank:
            raise DirectoryRejected(
                f"log.dirs: {directory} holds files but no meta.properties, so it is no log directory; "
                "name an empty directory or one of this node"
            )
        return None
    if meta.node_id != config.node_id:
        raise DirectoryRejected(
            f"log.dirs: {directory} belongs to node {meta.node_id}, but node.id is {config.node_id}; "
            "set node.id to match or name this node's directory"
        )
    _lock(disk, directory, locks)
    return meta


def _reject_other_metadata(config: BrokerConfig, disk: Disk, directories: Iterable[str]) -> None:
    """Raise DirectoryRejected for a second metadata log: with the wrong one, the node would have no topics.

    It would then set all logs aside.
    """
    for directory in directories:
        if directory == config.metadata_dir:
            continue
        try:
            has_metadata = disk.is_directory(f"{directory}/{METADATA_DIRECTORY}")
        except DiskFailure as failure:
            raise DirectoryRejected(f"log.dirs: {failure}; make it readable or name another directory") from failure
        if has_metadata:
            raise DirectoryRejected(
                f"log.dirs: {directory} holds a metadata log, but that of this node is to be in {config.metadata_dir}; "
                f"set metadata.log.dir={directory}, or remove {METADATA_DIRECTORY} there if it is an old one"
            )


def _lock(disk: Disk, directory: str, locks: dict[str, DiskLock]) -> None:
    try:
        lock = disk.lock(f"{directory}/{LOCK_FILE}")
    except DiskFailure as failure:
        raise UnreadableDirectory(f"log.dirs: {failure}; make the directory writable or name another one") from failure
    if lock is None:
        raise DirectoryRejected(f"log.dirs: {directory} is in use by another broker; stop it or name another directory")
    locks[directory] = lock


def _complete(
    config: BrokerConfig,
    found: dict[str, MetaProperties | None],
    *,
    disk: Disk,
    clock: Clock,
    random_source: RandomSource,
    locks: dict[str, DiskLock],
) -> dict[str, MetaProperties]:
    known = {directory: meta for directory, meta in found.items() if meta is not None}
    clusters = {meta.cluster_id for meta in known.values()}
    if len(clusters) > 1:
        raise DirectoryRejected(
            f"log.dirs: the directories belong to different clusters, {' and '.join(sorted(clusters))}"
        )
    _reject_other_metadata(config, disk, known)
    blank = [directory for directory, meta in found.items() if meta is None]
    if not blank:
        return known
    if not config.is_default_quorum:
        raise DirectoryRejected(
            f"log.dirs: no meta.properties in {blank[0]}: format it with kwire format, or remove the "
            "controller.quorum settings to let an empty directory become a new cluster of one"
        )
    if config.metadata_dir in known:
        # A new disk beside those of a known node: it gets the cluster's identity and no metadata.
        cluster_id = known[config.metadata_dir].cluster_id
    elif known:
        raise DirectoryRejected(
            f"log.dirs: {config.metadata_dir}, which should hold the metadata log, is blank while others are "
            "not; mount it, or point metadata.log.dir at the one that holds it"
        )
    else:
        cluster_id = uuid_to_text(random_source.uuid())
    return known | {
        directory: _format(
            config, directory, cluster_id, disk=disk, clock=clock, random_source=random_source, locks=locks
        )
        for directory in blank
    }


def _format(
    config: BrokerConfig,
    directory: str,
    cluster_id: str,
    *,
    disk: Disk,
    clock: Clock,
    random_source: RandomSource,
    locks: dict[str, DiskLock],
) -> MetaProperties:
    directory_id = random_source.uuid()
    try:
        make_durably(disk, directory)
        _lock(disk, directory, locks)
        if directory != config.metadata_dir:
            meta = MetaProperties(cluster_id=cluster_id, node_id=config.node_id, directory_id=directory_id)
            logger.warning("%s is blank; it becomes a log directory of node %d", directory, config.node_id)
            return write_identity(disk, directory, meta)
        logger.info("formatting %s as a new cluster of one, cluster id %s", directory, cluster_id)
        return format_directory(
            disk,
            directory,
            cluster_id=cluster_id,
            node_id=config.node_id,
            directory_id=directory_id,
            controller_endpoint=controller_endpoint(config),
            now_ms=clock.wall_ms(),
        )
    except DiskFailure as failure:
        raise DirectoryRejected(f"log.dirs: {failure}; make the directory writable or name another one") from failure


def controller_endpoint(config: BrokerConfig) -> tuple[str, str, int]:
    """Return (listener name, host, port) of this node's controller for a formatted voter set."""
    if config.advertised_controller_listeners:
        advertised = config.advertised_controller_listeners[0]
        return advertised.name, advertised.host or "localhost", advertised.port
    host = config.listeners[0].host or "localhost"
    return config.controller_listener_names[0], host, DEFAULT_CONTROLLER_PORT
