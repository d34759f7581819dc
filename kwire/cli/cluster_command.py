"""`kwire cluster start`: a cluster of processes on one machine."""

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
    from kwire.cli.cluster_opening import Wanted
    from kwire.cli.cluster_processes import ClusterProcesses

NODE = ("kwire", "server", "--stop-with-stdin")
EXIT_REFUSED = 1
EXIT_FAILED = 3
"""A node's failure ended the cluster, or kept it from a clean stop."""


@click.group()
def cluster() -> None:
    """Run several nodes on this machine, or look at a cluster."""


@cluster.command()
@click.option("--brokers", type=click.IntRange(0, 100), help="How many brokers; 3 in a new cluster.")
@click.option(
    "--controllers",
    type=click.IntRange(0, 9),
    help="How many nodes that are controllers only. Without any, up to three of the brokers are controllers, too.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("kwire-cluster"),
    show_default=True,
    help="Directory of the cluster: made if it is not there, else started again.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port of the first broker, 9092 in a new cluster; the other nodes have the next ones. 0 takes any free ones.",
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting that wins over the nodes' files."
)
@click.option("--exit-on-failure", is_flag=True, help="Stop all nodes when one fails, instead of going on.")
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
    """Run a cluster on 127.0.0.1 until it is told to stop (Ctrl-C or SIGTERM).

    The lines of all nodes are shown together. A node that ends does not end the others: its settings are in a file of
    the cluster's directory, with which `kwire server` starts it again.
    """
    # Loaded here: `kwire server`, which this module is imported beside, starts without it.
    from kwire import event_loop  # noqa: PLC0415
    from kwire.cli.cluster_opening import Wanted  # noqa: PLC0415
    from kwire.cli.cluster_processes import ClusterProcesses  # noqa: PLC0415
    from kwire.server.own_processes import command_of  # noqa: PLC0415

    opened = _open(Wanted(data=data, brokers=brokers, controllers=controllers, port=port, overrides=overrides))
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


def _open(wanted: Wanted) -> Cluster:
    from kwire.cli.cluster_directory import ClusterRefused  # noqa: PLC0415 see start
    from kwire.cli.cluster_opening import open_cluster  # noqa: PLC0415
    from kwire.log.disk import DiskFailure  # noqa: PLC0415

    # What is odd about settings, the nodes say themselves.
    logging.getLogger("kwire").addHandler(logging.NullHandler())
    try:
        return open_cluster(replace(wanted, data=wanted.data.resolve()))
    except RuntimeError:  # of pathlib
        click.echo(f"kwire: {wanted.data}: too many levels of symbolic links", err=True)
    except (ClusterRefused, DiskFailure) as error:
        click.echo(f"kwire: {error}", err=True)
    except OSError as error:
        click.echo(f"kwire: {error.filename or wanted.data}: {error.strerror}", err=True)
    sys.exit(EXIT_REFUSED)


async def _run(processes: ClusterProcesses) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, processes.stop)
    loop.add_signal_handler(signal.SIGHUP, processes.stop_unless_stopping)
    await processes.run()


def _shown(path: Path) -> str:
    """The path as people would write it here."""
    try:
        relative = os.path.relpath(path)
    except FileNotFoundError:  # the current directory was deleted
        return str(path)
    return str(path) if relative.startswith("..") else relative
