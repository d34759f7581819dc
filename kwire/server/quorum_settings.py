"""What the settings and the directories say of this node as a replica of the metadata log."""

from __future__ import annotations

from kwire.cluster.directory import DirectoryRefused
from kwire.cluster.metadata_log import MetadataLog
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.voters import Listener, VoterSet
from kwire.server.settings.config import BrokerConfig
from kwire.server.storage import Storage, controller_endpoint


def quorum_config(config: BrokerConfig, storage: Storage) -> QuorumConfig:
    """What the quorum is told of the node."""
    name, host, port = controller_endpoint(config)
    return QuorumConfig(
        cluster_id=storage.cluster_id,
        node_id=config.node_id,
        directory_id=storage.metadata_directory_id,
        listener=name,
        endpoints=(Listener(name, host, port),),
        election_timeout_ms=config["controller.quorum.election.timeout.ms"],
        fetch_timeout_ms=config["controller.quorum.fetch.timeout.ms"],
        election_backoff_max_ms=config["controller.quorum.election.backoff.max.ms"],
        request_timeout_ms=config["controller.quorum.request.timeout.ms"],
        retry_backoff_ms=config["controller.quorum.retry.backoff.ms"],
    )


def static_voters(config: BrokerConfig) -> VoterSet:
    """Who votes where the log does not say it: this node alone."""
    name, host, port = controller_endpoint(config)
    return VoterSet.static([(config.node_id, host, port)], name)


def refuse_other_voters(metadata_log: MetadataLog, quorum: QuorumConfig) -> None:
    """Raise DirectoryRefused for a log that this node may not lead alone."""
    voters = metadata_log.node.quorum.history.voters
    if not voters.is_only_voter(quorum.key):
        others = ", ".join(str(voter) for voter in sorted(voters.ids))
        raise DirectoryRefused(
            f"log.dirs: the voters of the metadata log are the nodes {others}, in directories that this node does not "
            "have or not alone; only a quorum of this node and directory alone is served yet"
        )
