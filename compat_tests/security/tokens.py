"""Delegation tokens that Apache Kafka's kafka-delegation-tokens creates, describes, renews and expires."""

import re
from dataclasses import replace
from pathlib import Path

from compat_tests.kafka_tools.tools import Ran, ToolBox
from compat_tests.security.clients import command_config
from compat_tests.security.secured import Login

ROW = re.compile(r"^(?P<id>[\w-]{22})\s+(?P<hmac>[A-Za-z0-9+/]{86}==)\s+User:(?P<owner>\w+)", re.MULTILINE)


class Tokens:
    """The tool, run with one login."""

    def __init__(self, login: Login, directory: Path) -> None:
        self._login = login
        self._tools = ToolBox(login.address, None)
        self._config = command_config(login, directory)

    def try_to(self, *arguments: str) -> Ran:
        return self._tools.run("kafka-delegation-tokens", "--command-config", self._config, *arguments)

    def run(self, *arguments: str) -> str:
        ran = self.try_to(*arguments)
        assert ran.status == 0, ran.said
        return ran.output

    def create(self, *arguments: str) -> Login:
        """Return a login of the owner by a new token."""
        row = ROW.search(self.run("--create", "--max-life-time-period", "-1", *arguments))
        assert row is not None
        assert row["owner"] == self._login.user
        return replace(self._login, user=row["id"], password=row["hmac"], mechanism="SCRAM-SHA-512", is_token=True)

    def ids_of(self, owner: str) -> set[str]:
        """Return the ids of an owner's tokens; without an owner, Apache Kafka's tool shows none."""
        return {row["id"] for row in ROW.finditer(self.run("--describe", "--owner-principal", f"User:{owner}"))}

    def renew(self, token: Login) -> None:
        self.run("--renew", "--renew-time-period", "3600000", "--hmac", token.password)

    def expire(self, token: Login) -> None:
        """Remove a token."""
        self.run("--expire", "--expiry-time-period", "-1", "--hmac", token.password)
