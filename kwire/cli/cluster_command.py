"""Command `kwire cluster start`: a cluster of processes on one machine."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kwire.cli.cluster_directory import Cluster
    from kwire.cli.cluster_opening import ClusterOptions
    from kwire.cli.cluster_processes import ClusterProcesses

NODE = ("kwire", "server", "--stop-with-stdin")
EXIT_REJECTED = 1
EXIT_FAILED = 3
"""Exit status: the failure of a node ended the cluster, or prevented a clean stop."""


@click.group()
def cluster() -> None:
    """Run several nodes on this machine, or inspect a cluster."""


@cluster.command()
@click.option("--brokers", type=click.IntRange(0, 100), help="Number of brokers; 3 in a new cluster.")
@click.option(
    "--controllers",
    type=click.IntRange(0, 9),
    help="Number of nodes that are only controllers. Without any, up to three of the brokers are controllers too.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("kwire-cluster"),
    show_default=True,
    help="Directory of the cluster: created if it does not exist, else the cluster in it is started.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port of the first broker, 9092 in a new cluster; the other nodes have the next ones. 0 takes any free ones.",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Setting that overrides the nodes' files."
)
@click.option("--exit-on-failure", is_flag=True, help="Stop all nodes when one fails, instead of continuing.")
@click.option("--verbose", is_flag=True, help="Show what the nodes do, as Kafka's server.log.")
def start(
    brokers: int | None,
    controllers: int | None,
    data: Path,
    port: int | None,
    overrides: tuple[str, ...],
    *,
    exit_on_failure: bool,
    verbose: bool,
) -> None:
    """Run a cluster on 127.0.0.1 until it is stopped (Ctrl-C or SIGTERM).

    The output of all nodes is shown together. A node that exits does not end the others. Its settings are in a file in
    the cluster's directory: `kwire server FILE` starts it again.
    """
    # Imported here, because `kwire server` imports this module but must start without these.
    from kwire import event_loop  # noqa: PLC0415
    from kwire.cli.cluster_opening import ClusterOptions  # noqa: PLC0415
    from kwire.cli.cluster_processes import ClusterProcesses  # noqa: PLC0415
    from kwire.own_processes import command_of  # noqa: PLC0415

    opened = _open(ClusterOptions(data=data, brokers=brokers, controllers=controllers, port=port, overrides=overrides))
    arguments = [*(part for each in overrides for part in ("--override", each)), *(["--verbose"] if verbose else [])]
    processes = ClusterProcesses(
        opened.nodes,
        command=lambda node: command_of(*NODE, *arguments, str(opened.properties(node))),
        again=lambda node: " ".join(["kwire server", *arguments, _shown(opened.properties(node))]),
        exit_on_failure=exit_on_failure,
    )
    count = len(opened.nodes)
    click.echo(f"kwire: starting {count} node{'s'[: count > 1]}, data in {_shown(opened.directory)}")
    event_loop.run(_run(processes))
    sys.exit(EXIT_FAILED if processes.has_failed else 0)


def _open(options: ClusterOptions) -> Cluster:
    from kwire.cli.cluster_directory import ClusterRejected  # noqa: PLC0415 see start
    from kwire.cli.cluster_opening import open_cluster  # noqa: PLC0415
    from kwire.log.disk import DiskFailure  # noqa: PLC0415

    # The nodes themselves log warnings about settings.
    logging.getLogger("kwire").addHandler(logging.NullHandler())
    try:
        return open_cluster(replace(options, data=options.data.resolve()))
    except RuntimeError:  # raised by pathlib
        click.echo(f"kwire: {options.data}: too many levels of symbolic links", err=True)
    except (ClusterRejected, DiskFailure) as error:
        click.echo(f"kwire: {error}", err=True)
    except OSError as error:
        click.echo(f"kwire: {error.filename or options.data}: {error.strerror}", err=True)
    sys.exit(EXIT_REJECTED)


async def _run(processes: ClusterProcesses) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, processes.stop)
    loop.add_signal_handler(signal.SIGHUP, processes.stop_unless_stopping)
    await processes.run()


def _shown(path: Path) -> str:
    """Return the path in its shorter form, relative to the current directory if it is below it."""
    try:
        relative = os.path.relpath(path)
    except FileNotFoundError:  # the current directory was deleted
        return str(path)
    return str(path) if relative.startswith("..") else relative
