"""Rules for formatting a node's directories for its role in the quorum.

Voters are either configured on every node (controller.quorum.voters), or stored in the metadata log. In the latter case
formatting writes the first voters. These are this node alone, a set that all nodes are formatted with, or none for a
node that joins later. The rules and most messages are those of Apache Kafka's storage tool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kwire.cluster.formatting.initial_controllers import InvalidVoterError, initial_voter, parse_initial_controllers
from kwire.cluster.formatting.initial_features import (
    InvalidFeatureError,
    initial_levels,
    metadata_version_of,
    parse_levels,
)
from kwire.cluster.formatting.initial_scram import InvalidScramError, parse_scram
from kwire.cluster.formatting.node_formatting import FormatRejected, NodeFormat, Say, format_node
from kwire.cluster.quorum.voters import Listener, ReplicaKey, VoterSet
from kwire.log.disk import Disk
from kwire.seams import Clock, RandomSource
from kwire.server.node.storage import controller_endpoint
from kwire.server.settings.config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """Options of the format command, in addition to the settings."""

    cluster_id: str
    standalone: bool = False
    """True if this node is the only voter at first."""
    initial_controllers: str | None = None
    """First voters, in the syntax of initial_controllers.py."""
    no_initial_controllers: bool = False
    """True if the log was started by other nodes, and this node joins them."""
    ignore_formatted: bool = False
    """True if blank directories are formatted although others are formatted already."""
    release_version: str | None = None
    features: tuple[str, ...] = ()
    """Feature levels in the form name=level."""
    scram: tuple[str, ...] = ()
    """Credentials of the first users, in the syntax of initial_scram.py."""


def format_storage(
    config: BrokerConfig, options: FormatOptions, *, disk: Disk, random_source: RandomSource, clock: Clock, say: Say
) -> None:
    """Format the node's directories. Raises FormatRejected or DirectoryRejected with a message of one line."""
    plan = plan_format(config, options, random_source=random_source)
    format_node(
        plan, disk=disk, random_source=random_source, clock=clock, say=say, ignore_formatted=options.ignore_formatted
    )


def plan_format(config: BrokerConfig, options: FormatOptions, *, random_source: RandomSource) -> NodeFormat:
    """Return the format of the node's directories. Raises FormatRejected; no directory is read."""
    # Other characters would need the escapes of a properties file, and no cluster id needs them.
    if not re.fullmatch(r"[A-Za-z0-9._-]+", options.cluster_id):
        raise FormatRejected(
            "The cluster id may have letters, digits, '.', '_' and '-' only; kwire random-uuid makes one."
        )
    try:
        release = metadata_version_of(options.release_version) if options.release_version is not None else None
        asked = parse_levels(options.features)
        voters = _first_voters(config, options, random_source)
        features = initial_levels(asked, release, is_dynamic=not config.quorum_voters)
        credentials = parse_scram(options.scram, random_source)
    except (InvalidFeatureError, InvalidScramError, InvalidVoterError) as error:
        raise FormatRejected(str(error)) from None
    return NodeFormat(
        cluster_id=options.cluster_id,
        node_id=config.node_id,
        log_dirs=config.log_dirs,
        metadata_dir=config.metadata_dir,
        features=features,
        voters=voters,
        credentials=tuple(credentials),
    )


def _first_voters(config: BrokerConfig, options: FormatOptions, random_source: RandomSource) -> VoterSet | None:
    _check_one_of_them(options)
    says_voters = options.standalone or options.initial_controllers is not None
    if config.quorum_voters and says_voters:
        raise FormatRejected(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if options.initial_controllers is not None:
        return parse_initial_controllers(options.initial_controllers, config.controller_listener_names[0])
    if options.standalone:
        return _standalone(config, random_source)
    if config.is_controller and not config.quorum_voters and not options.no_initial_controllers:
        raise FormatRejected(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None


def _check_one_of_them(options: FormatOptions) -> None:
    given = [
        name
        for name, is_given in (
            ("--standalone", options.standalone),
            ("--initial-controllers", options.initial_controllers is not None),
            ("--no-initial-controllers", options.no_initial_controllers),
        )
        if is_given
    ]
    if len(given) > 1:
        raise FormatRejected(f"{given[1]} is not allowed with {given[0]}.")


def _standalone(config: BrokerConfig, random_source: RandomSource) -> VoterSet:
    if not config.is_controller:
        raise FormatRejected("You can only use --standalone on a controller.")
    return VoterSet(
        [initial_voter(ReplicaKey(config.node_id, random_source.uuid()), Listener(*controller_endpoint(config)))]
    )
