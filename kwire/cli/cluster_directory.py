"""Directory of a cluster on one machine: created once, and compared with the options of each later start.

    cluster.properties      the cluster's id, nodes, ports and voters; written when every node is formatted
    broker-1.properties     a node's settings, which `kwire server` accepts as well
    broker-1/               the node's log directory

Until all nodes are formatted, cluster.properties has another name, and no node runs. So a start that finds
that name may complete a formatting that a crash interrupted. Afterwards nothing is formatted again: a voter
without its log must not vote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwire.cli.cluster_plan import HOST, Node, Shape, properties_of
from kwire.cluster.directory import DirectoryRejected, load_meta_properties
from kwire.cluster.formatting.formatting import make_durably
from kwire.cluster.formatting.node_formatting import FormatRejected
from kwire.log.disk import DiskFailure, DiskLock, RealDisk
from kwire.properties_files import escape_value, read_properties
from kwire.protocol.uuids import uuid_to_text
from kwire.seams import SystemClock, SystemRandomSource
from kwire.server.node.formation import FormatOptions, format_storage
from kwire.server.settings.config import BrokerConfig, SettingError, load_config

CLUSTER_FILE = "cluster.properties"
UNFINISHED_FILE = "cluster.properties.unfinished"
LOCK_FILE = ".lock"
_DISK = RealDisk()


class ClusterRejected(Exception):  # noqa: N818 the name says what happened
    """The cluster cannot be started; the message is one line that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Content of cluster.properties."""

    directory: Path
    cluster_id: str
    shape: Shape
    ports: tuple[int, ...]
    directory_ids: tuple[str, ...]
    """Directory ids of the controllers, in the order of their node ids."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.shape.nodes(self.ports)

    @property
    def voters(self) -> str:
        """Return the voters in the form of --initial-controllers."""
        controllers = [node for node in self.nodes if node.controller_port is not None]
        return ",".join(
            f"{node.node_id}@{HOST}:{node.controller_port}:{directory_id}"
            for node, directory_id in zip(controllers, self.directory_ids, strict=True)
        )

    def properties(self, node: Node) -> Path:
        return self.directory / f"{node.name}.properties"

    def log_dir(self, node: Node) -> Path:
        return self.directory / node.name

    def to_text(self) -> str:
        values = {
            "directory": self.directory,
            "cluster.id": self.cluster_id,
            "brokers": self.shape.brokers,
            "controllers": self.shape.controllers,
            "ports": ",".join(map(str, self.ports)),
            "directory.ids": ",".join(self.directory_ids),
        }
        lines = [f"{name}={escape_value(str(value))}" for name, value in values.items()]
        return "\n".join(["# The cluster in this directory, created by kwire cluster start", *lines]) + "\n"


def plan_cluster(directory: Path, shape: Shape, ports: Sequence[int]) -> Cluster:
    """Return a new cluster with new ids, without creating it. Raises ClusterRejected."""
    text = str(directory)
    if "," in text or not text.isprintable():
        raise ClusterRejected(f"{text}: the path of log directories cannot contain a comma or a control character")
    random_source = SystemRandomSource()
    controllers = shape.controllers or shape.combined
    return Cluster(
        directory=directory,
        cluster_id=uuid_to_text(random_source.uuid()),
        shape=shape,
        ports=tuple(ports),
        directory_ids=tuple(uuid_to_text(random_source.uuid()) for _ in range(controllers)),
    )


def find_cluster(directory: Path) -> Cluster | None:
    """Return the cluster in a directory; None if it is missing or empty. Raises ClusterRejected for any other."""
    for name in (CLUSTER_FILE, UNFINISHED_FILE):
        path = directory / name
        if path.exists():
            return _read(path)
    if not directory.exists():
        return None
    if not directory.is_dir():
        raise ClusterRejected(f"{directory} is not a directory; name another one with --data")
    # A crash during the first write leaves only the lock and the temporary file.
    if {path.name for path in directory.iterdir()} - {LOCK_FILE, f"{UNFINISHED_FILE}.tmp"}:
        raise ClusterRejected(f"{directory} holds files but no {CLUSTER_FILE}; name another directory with --data")
    return None


def _read(path: Path) -> Cluster:
    try:
        values = read_properties(path.read_text())
        found = Cluster(
            directory=Path(values["directory"]),
            cluster_id=values["cluster.id"],
            shape=Shape(brokers=int(values["brokers"]), controllers=int(values["controllers"])),
            ports=tuple(int(port) for port in values["ports"].split(",")),
            directory_ids=tuple(values["directory.ids"].split(",")),
        )
    except (KeyError, ValueError) as error:
        raise ClusterRejected(f"{path} cannot be read ({error}); restore it, or name another directory") from None
    shape = found.shape
    if len(found.ports) != shape.port_count or len(found.directory_ids) != shape.port_count - shape.brokers:
        raise ClusterRejected(f"{path}: ports or directory.ids do not match the number of nodes; restore it")
    if found.directory != path.parent:
        raise ClusterRejected(
            f"{path.parent} was moved or copied from {found.directory}, which the settings of its nodes still name; "
            "move it back, or name another directory with --data"
        )
    return found


def lock_cluster(cluster: Cluster) -> DiskLock:
    """Create the directory, and lock it. Raises ClusterRejected."""
    make_durably(_DISK, str(cluster.directory))
    lock = _DISK.lock(str(cluster.directory / LOCK_FILE))
    if lock is None:
        raise ClusterRejected(f"{cluster.directory} is in use by another kwire cluster; name another one with --data")
    return lock


def configs_of(cluster: Cluster, overrides: Sequence[tuple[str, str]]) -> Mapping[Node, BrokerConfig]:
    """Return the settings of each node, from its file or from the file that it will get.

    Raises ClusterRejected.
    """
    return {node: _config(cluster, node, overrides) for node in cluster.nodes}


def _config(cluster: Cluster, node: Node, overrides: Sequence[tuple[str, str]]) -> BrokerConfig:
    path = cluster.properties(node)
    is_formed = (cluster.directory / CLUSTER_FILE).exists()
    try:
        text = path.read_text() if is_formed else _text(cluster, node)
        config = load_config(text, overrides)
    except OSError as error:
        raise ClusterRejected(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ClusterRejected(f"{path}: is not a text file") from None
    except SettingError as error:
        raise ClusterRejected(f"{error} ({node.name})") from None
    if config.node_id != node.node_id:
        raise ClusterRejected(f"{path}: node.id is {config.node_id}, but this is the file of node {node.node_id}")
    return config


def _text(cluster: Cluster, node: Node) -> str:
    return properties_of(node, cluster.nodes, str(cluster.log_dir(node)))


def form_cluster(cluster: Cluster) -> None:
    """Write the files and format the directories of all nodes, as far as they are missing. Raises ClusterRejected."""
    if (cluster.directory / CLUSTER_FILE).exists():
        return
    unfinished = str(cluster.directory / UNFINISHED_FILE)
    _DISK.replace(unfinished, cluster.to_text().encode(), sync=True)
    try:
        for node in cluster.nodes:
            _DISK.replace(str(cluster.properties(node)), _text(cluster, node).encode(), sync=True)
            _format(cluster, node)
    except (FormatRejected, DirectoryRejected) as error:
        raise ClusterRejected(str(error)) from error
    _DISK.rename(unfinished, str(cluster.directory / CLUSTER_FILE))
    _DISK.sync_directory(str(cluster.directory))


def _format(cluster: Cluster, node: Node) -> None:
    format_storage(
        load_config(_text(cluster, node)),
        FormatOptions(
            cluster_id=cluster.cluster_id,
            initial_controllers=None if node.controller_port is None else cluster.voters,
            ignore_formatted=True,
        ),
        disk=_DISK,
        random_source=SystemRandomSource(),
        clock=SystemClock(),
        say=lambda _: None,
    )


def check_identities(cluster: Cluster, configs: Mapping[Node, BrokerConfig]) -> None:
    """Raise ClusterRejected if a node's directory does not belong to this cluster and node."""
    for node, config in configs.items():
        path = config.metadata_dir
        try:
            meta = load_meta_properties(_DISK, path)
        except (DirectoryRejected, DiskFailure) as error:
            raise ClusterRejected(str(error)) from error
        if meta is None:
            raise ClusterRejected(
                f"{path} of {node.name} has no meta.properties: its data is missing. Restore it, or accept its loss: "
                f"kwire format -N -t {cluster.cluster_id} -c {cluster.properties(node)}"
            )
        if (meta.cluster_id, meta.node_id) != (cluster.cluster_id, node.node_id):
            raise ClusterRejected(
                f"{path} is of node {meta.node_id} of cluster {meta.cluster_id}, not of node {node.node_id} of "
                f"cluster {cluster.cluster_id}"
            )
