"""Command `kwire cluster status`: brokers, controllers, and partitions that lack replicas."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kwire.cli.log_command import printable, reject, until_pipe_breaks

if TYPE_CHECKING:
    from kwire.cli.cluster_status import ClusterStatus
    from kwire.server.network.outgoing.security import OutgoingSecurity

EXIT_UNHEALTHY = 1
PORT = 9092
CLEAR = "\033[H\033[2J"
_ADDRESS = re.compile(r"(?:\[([^][]+)\]|([^][:]+))(?::([0-9]{1,5}))?")
"""Pattern of host:port, host, [address]:port or [address]. An IPv6 address needs the brackets to be separable."""


class _Seconds(click.FloatRange):
    """FloatRange that rejects NaN, which is neither below nor above a limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is not a number.", param, ctx)
        return seconds


SECONDS = _Seconds(0.1, 3600)


@click.command()
@click.option(
    "--bootstrap-server",
    "servers",
    default=f"127.0.0.1:{PORT}",
    show_default=True,
    metavar="HOST:PORT[,...]",
    help="Brokers; the metadata of the first that answers name the others.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text, or one JSON object per status.",
)
@click.option("--watch", is_flag=True, help="Repeat until it is stopped (Ctrl-C).")
@click.option("--interval", type=SECONDS, default=2.0, show_default=True, help="Seconds between two statuses.")
@click.option("--timeout", type=SECONDS, default=10.0, show_default=True, help="Seconds to wait for a broker.")
@click.option(
    "--command-config",
    "config",
    type=click.Path(path_type=Path),
    help="Properties file with security.protocol, sasl.* and ssl.*, as Kafka's tools read it.",
)
def status(servers: str, form: str, *, watch: bool, interval: float, timeout: float, config: Path | None) -> None:
    """Show cluster health, of kwire's clusters and of Apache Kafka's.

    The exit status is 0 if the cluster is healthy. Then every registered broker is unfenced and answers, and its log
    directories are online and have space. A controller leads and all voters fetch from it. Every partition is served by
    its leader with all replicas in sync. The exit status is 1 if not, and 2 if no broker can be asked.
    """
    addresses = [_address(text) for text in servers.split(",")]
    try:
        show = partial(_run, addresses, form, timeout, interval if watch else None, config)
        sys.exit(until_pipe_breaks(lambda: asyncio.run(show())))
    except KeyboardInterrupt:
        sys.exit(0)


def _address(text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or not 0 < (port := int(found[3] or PORT)) < 1 << 16:
        reject(f"--bootstrap-server {text}: is not host:port; an IPv6 address is written as [::1]:{PORT}")
    return found[1] or found[2], port


async def _run(
    addresses: list[tuple[str, int]], form: str, timeout_seconds: float, interval: float | None, config: Path | None
) -> int:
    # Imported here, because `kwire server` imports this module but must start without these.
    from kwire.cli.cluster_asking import Asking, CannotAsk  # noqa: PLC0415

    asking = Asking(addresses, timeout_ms=round(timeout_seconds * 1000), security=_security(config))
    try:
        while True:
            try:
                found = await asking.look()
            except CannotAsk as error:
                if interval is None:
                    reject(str(error))
                message = printable(str(error))
                line = json.dumps({"healthy": False, "error": message}) if form == "json" else f"kwire: {message}"
                _show([line], is_redrawn=form == "text")
            else:
                _show(_lines(found, form), is_redrawn=form == "text" and interval is not None)
                if interval is None:
                    return 0 if found.is_healthy else EXIT_UNHEALTHY
            await asyncio.sleep(interval)
    finally:
        asking.close()


def _security(config: Path | None) -> OutgoingSecurity:
    from kwire.server.network.outgoing.security import PLAINTEXT  # noqa: PLC0415 see _run

    if config is None:
        return PLAINTEXT
    from kwire.cli.command_config import security_of  # noqa: PLC0415 it imports the library for certificates
    from kwire.server.settings.config import SettingError  # noqa: PLC0415 see _run

    try:
        return security_of(config)
    except SettingError as error:
        reject(str(error))


def _lines(found: ClusterStatus, form: str) -> list[str]:
    from kwire.cli.status_shown import as_lines, as_object  # noqa: PLC0415 see _run

    return [json.dumps(as_object(found), separators=(",", ":"))] if form == "json" else list(as_lines(found))


def _show(lines: list[str], *, is_redrawn: bool) -> None:
    """Print one status; in a terminal it replaces the previous one."""
    if is_redrawn and sys.stdout.isatty():
        click.echo(CLEAR, nl=False)
    click.echo("\n".join(lines))
    if is_redrawn and not sys.stdout.isatty():
        click.echo()
    sys.stdout.flush()
