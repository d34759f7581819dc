"""Commands `kwire format` and `kwire random-uuid`: format a node's directories before its
first start, like kafka-storage.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from kwire.cli.log_command import printable

if TYPE_CHECKING:
    from kwire.server.node.formation import FormatOptions

EXIT_REJECTED = 1


@click.command("format")
@click.option("-c", "--config", "properties", type=click.Path(path_type=Path), help="The node's server.properties.")
@click.option("-t", "--cluster-id", help="The cluster's id, the same on all nodes; `kwire random-uuid` makes one.")
@click.option("-s", "--standalone", is_flag=True, help="Make this controller the only voter of a new quorum.")
@click.option(
    "-N", "--no-initial-controllers", is_flag=True, help="Name no voters: this node joins an existing quorum."
)
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID,...",
    help="The voters of a new quorum, the same on all nodes; directory ids are made by `kwire random-uuid`.",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Skip what is formatted already instead of failing.")
@click.option("-r", "--release-version", metavar="VERSION", help="Release whose metadata.version to start with.")
@click.option("-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="Initial level of a feature.")
@click.option(
    "-S",
    "--add-scram",
    "scram",
    multiple=True,
    metavar="MECHANISM=[...]",
    help="Initial user, as in 'SCRAM-SHA-256=[name=alice,password=alice-secret]' or "
    '\'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]\'.',
)
def format_directories(
    properties: Path | None,
    cluster_id: str | None,
    initial_controllers: str | None,
    release_version: str | None,
    features: tuple[str, ...],
    scram: tuple[str, ...],
    *,
    standalone: bool,
    no_initial_controllers: bool,
    ignore_formatted: bool,
) -> None:
    """Format the log directories of a node for the quorum that it will join.

    If controller.quorum.voters names the voters, none of --standalone, --initial-controllers and
    --no-initial-controllers is needed. Otherwise a controller needs one of them. A node without any quorum setting need
    not be formatted: its first start does it.
    """
    if properties is None:
        _reject("argument --config/-c is required")
    if cluster_id is None:
        _reject("argument --cluster-id/-t is required")
    # Imported here, because `kwire server` imports this module but must start without these.
    from kwire.server.node.formation import FormatOptions  # noqa: PLC0415

    _format(
        properties,
        FormatOptions(
            cluster_id=cluster_id,
            standalone=standalone,
            initial_controllers=initial_controllers,
            no_initial_controllers=no_initial_controllers,
            ignore_formatted=ignore_formatted,
            release_version=release_version,
            features=features,
            scram=scram,
        ),
    )


def _format(properties: Path, options: FormatOptions) -> None:
    from kwire.cluster.directory import DirectoryRejected  # noqa: PLC0415 see format_directories
    from kwire.cluster.formatting.node_formatting import FormatRejected  # noqa: PLC0415
    from kwire.log.disk import DiskFailure, RealDisk  # noqa: PLC0415
    from kwire.seams import SystemClock, SystemRandomSource  # noqa: PLC0415
    from kwire.server.node.formation import format_storage  # noqa: PLC0415
    from kwire.server.settings.config import SettingError, load_config  # noqa: PLC0415

    try:
        config = load_config(properties.read_text())
        format_storage(
            config, options, disk=RealDisk(), random_source=SystemRandomSource(), clock=SystemClock(), say=_say
        )
    except OSError as error:
        _reject(f"{properties}: {error.strerror}")
    except UnicodeDecodeError:
        _reject(f"{properties}: is not a text file")
    except (SettingError, FormatRejected, DirectoryRejected, DiskFailure) as error:
        _reject(str(error))


@click.command("random-uuid")
def random_uuid() -> None:
    """Print an id for a cluster or a directory."""
    from kwire.protocol.uuids import uuid_to_text  # noqa: PLC0415 see format_directories
    from kwire.seams import SystemRandomSource  # noqa: PLC0415

    click.echo(uuid_to_text(SystemRandomSource().uuid()))


def _say(line: str) -> None:
    """Print a line; names of users and directories in it may contain terminal control characters."""
    click.echo(printable(line))


def _reject(message: str) -> NoReturn:
    click.echo(f"kwire: {printable(message)}", err=True)
    sys.exit(EXIT_REJECTED)
