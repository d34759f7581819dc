"""Command line: `kwire server`, `kwire cluster`, `kwire format`, `kwire config`, `kwire log`."""

from __future__ import annotations

import click

from kwire.cli.cluster_command import cluster
from kwire.cli.config_command import config
from kwire.cli.format_command import format_directories, random_uuid
from kwire.cli.log_command import log
from kwire.cli.log_verify_command import verify
from kwire.cli.server_command import server
from kwire.cli.status_command import status


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kwire")
def main() -> None:
    """A real Kafka in Python."""


main.add_command(server)
main.add_command(cluster)
cluster.add_command(status)
main.add_command(config)
main.add_command(format_directories)
main.add_command(random_uuid)
main.add_command(log)
log.add_command(verify)
