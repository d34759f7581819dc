"""Command `kwire server [server.properties] [--override key=value]...`."""

from __future__ import annotations

import asyncio
import logging
import resource
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from kwire import event_loop
from kwire.cli.log_lines import LineLimit, OneLineFormatter
from kwire.cli.stopping import Stopping, say
from kwire.cluster.directory import DirectoryRejected
from kwire.invariants import failure_reason, is_broken_invariant
from kwire.kept_objects import FullCollections, KeptObjects, collect_rarely
from kwire.log import progress
from kwire.log.disk import DiskFailure
from kwire.log.log_directory import LogDirectoryError
from kwire.server.assembly.broker import BrokerServer, start_broker
from kwire.server.network.memory.memory_return import fix_malloc_thresholds, resident_bytes
from kwire.server.settings.config import BrokerConfig, SettingError, load_config, parse_override

if TYPE_CHECKING:
    from kwire.server.assembly.controller_server import ControllerServer

logger = logging.getLogger(__name__)

LOG_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (%(name)s)"
OPEN_FILES_WANTED = 100_000
EXIT_REJECTED = 1
EXIT_FAILED = 3
"""Exit status: the broker stopped because it could not keep its guarantees."""
EXIT_BROKEN = 70
"""Exit status: a broken invariant threatens durable data, by a bug in kwire or faulty memory (sysexits: EX_SOFTWARE).
"""


@click.command()
@click.argument("properties", required=False, type=click.Path(path_type=Path))
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Setting that overrides the file.")
@click.option("--verbose", is_flag=True, help="Log what the broker does, as Kafka's server.log.")
@click.option("--say-progress", is_flag=True, hidden=True, help="Log how far a long start or stop is, every second.")
@click.option("--stop-with-stdin", is_flag=True, hidden=True, help="Stop when standard input, a pipe, is closed, too.")
@click.option("--remove-after", hidden=True, help="Remove this directory once the node has stopped.")
def server(
    properties: Path | None,
    overrides: tuple[str, ...],
    *,
    verbose: bool,
    say_progress: bool,
    stop_with_stdin: bool,
    remove_after: str | None,
) -> None:
    """Run a node until it is stopped (Ctrl-C or SIGTERM).

    PROPERTIES is a server.properties file as Kafka's server reads it. Without it: node 1, broker and controller in one,
    on 127.0.0.1:9092, with its data in ./data.
    """
    _log_to_stderr(logging.INFO if verbose else logging.WARNING)
    if say_progress:
        progress.logger.setLevel(logging.INFO)
    _allow_open_files()
    _forbid_core_dumps()
    fix_malloc_thresholds()
    text = "" if properties is None else _read(properties)
    try:
        config = load_config(text, [parse_override(override) for override in overrides])
        status = _run(config, stop_with_stdin=stop_with_stdin, remove_after=remove_after)
    except (SettingError, DirectoryRejected, LogDirectoryError, DiskFailure) as error:
        _reject(str(error))
    else:
        sys.exit(status)


def _run(config: BrokerConfig, *, stop_with_stdin: bool, remove_after: str | None) -> int:
    try:
        return event_loop.run(_serve(config, stop_with_stdin=stop_with_stdin))
    finally:  # also when the output of this process cannot be written
        if remove_after is not None:
            shutil.rmtree(remove_after, ignore_errors=True)


def _log_to_stderr(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter(LOG_FORMAT, datefmt="%Y-%m-%d %H:%M:%S"))
    handler.addFilter(LineLimit())
    logging.basicConfig(level=level, handlers=[handler])


def _allow_open_files() -> None:
    """Raise the limit of open files as far as allowed, like the JVM: 256 on macOS and 1024 on Debian are too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError) as error:
        logger.warning("the limit of open files stays at %d: %s", soft, error)


def _forbid_core_dumps() -> None:
    """Write no core dump if the process crashes: it would contain passwords and the records of clients."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(properties: Path) -> str:
    try:
        return properties.read_text()
    except OSError as error:
        _reject(f"{properties}: {error.strerror}")
    except UnicodeDecodeError:
        _reject(f"{properties}: is not a text file")


def _reject(message: str) -> NoReturn:
    click.echo(f"kwire: {message}", err=True)
    sys.exit(EXIT_REJECTED)


async def _start(config: BrokerConfig) -> BrokerServer | ControllerServer:
    if config.is_broker:
        return await start_broker(config, count_loaded=KeptObjects().loaded)
    from kwire.server.assembly.controller_server import start_controller  # noqa: PLC0415 not needed by a broker

    return await start_controller(config)


async def _started(config: BrokerConfig, stop: asyncio.Event) -> BrokerServer | ControllerServer | None:
    """Start the server; return None if it was stopped before it served, for example while it waited for a quorum."""
    starting = asyncio.ensure_future(_start(config))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
    try:
        return await starting
    except asyncio.CancelledError:
        return None


async def _serve(config: BrokerConfig, *, stop_with_stdin: bool) -> int:
    stopping = Stopping(with_stdin=stop_with_stdin)
    server = await _started(config, stopping.requested)
    if server is None:
        say("kwire: stopped before it served")
        return 0
    if isinstance(server, BrokerServer):
        what = f"serving Kafka on {server.bootstrap_server}"
    else:
        what = f"controlling on {', '.join(server.addresses)}"
    say(f"kwire: {what}, node {config.node_id}, data in {', '.join(config.log_dirs)} (Ctrl-C stops)")
    collect_rarely()
    collections = FullCollections(lambda: server.long_request_bytes, resident_bytes=resident_bytes)
    collecting = asyncio.ensure_future(collections.run())
    server.failed.add_done_callback(lambda _: stopping.requested.set())
    await stopping.requested.wait()
    collecting.cancel()
    failed = server.failed.done()
    if isinstance(server, BrokerServer) and not failed:
        await server.stop(before_leaving=stopping.before_leaving)
    else:
        await server.stop()
    if not failed:
        say("kwire: stopped")
        return 0
    failure = server.failed.result()
    click.echo(f"kwire: stopped, because {failure_reason(failure)}", err=True)
    return EXIT_BROKEN if is_broken_invariant(failure) else EXIT_FAILED
