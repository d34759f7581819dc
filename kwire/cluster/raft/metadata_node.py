"""Opens the metadata log of a node: recovery, damage check, snapshots, its quorum, and the resulting images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.voters import VoterSet
from kwire.cluster.raft.metadata_damage import reject_damage
from kwire.cluster.raft.metadata_log import METADATA_TOPIC_ID, UNREADABLE, MetadataLog
from kwire.cluster.raft.raft_log import RaftLog
from kwire.cluster.raft.raft_node import Channel, RaftNode
from kwire.cluster.topic_names import METADATA_TOPIC
from kwire.log.config import LogConfig
from kwire.log.recovery import Surroundings, open_log
from kwire.seams import Workers

METADATA_BATCH_BYTES_MAX = 8 * 1024 * 1024


def open_metadata_log(
    config: QuorumConfig,
    *,
    directory: str,
    surroundings: Surroundings,
    workers: Workers,
    channel: Channel,
    static_voters: VoterSet | None,
    bootstrap: Sequence[Any],
    segment_bytes: int,
    segment_ms: int,
) -> MetadataLog:
    """Open the metadata log in `directory`, that of __cluster_metadata-0. It joins the quorum only with `start`.

    Raises DirectoryRejected if durable records are damaged, missing or cannot be read.
    """
    disk = surroundings.disk
    reject_damage(disk, directory)
    log = open_log(
        directory,
        topic=METADATA_TOPIC,
        partition=0,
        config=LogConfig(
            retention_ms=-1,
            max_message_bytes=METADATA_BATCH_BYTES_MAX,
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
        ),
        surroundings=surroundings,
    )
    if log.topic_id is None:
        log.assign_topic_id(METADATA_TOPIC_ID)
    raft_log = RaftLog(log, disk=disk, clock=surroundings.clock)
    raft_log.open()
    try:
        node = RaftNode(
            config,
            log=raft_log,
            directory=directory,
            disk=disk,
            clock=surroundings.clock,
            random_source=surroundings.random_source,
            workers=workers,
            channel=channel,
            static_voters=static_voters,
        )
    except UNREADABLE as error:
        raise DirectoryRejected(
            f"log.dirs: the newest snapshot or the log in {directory} cannot be read ({error}); restore it from a "
            "backup: starting without it would delete topics"
        ) from error
    return MetadataLog(node, node_id=config.node_id, bootstrap=bootstrap)
