"""Clients in other languages: programs that read a login from standard input, and print values or an error."""

import json
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat_tests.security.secured import Login

SECONDS_MAX = 60


class Program(ABC):
    """A client whose program produces the values of a task to partition 0, and consumes them from there."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the program; on first use, fetch what it needs."""

    def environment(self) -> Mapping[str, str]:
        """Return what the program needs in its environment."""
        return {}

    def round_trip(self, login: Login, topic: str, values: list[bytes], directory: Path) -> list[bytes]:
        found, error = self._run(login, topic, values)
        assert not error, error
        return found

    def refusal(self, login: Login, topic: str, directory: Path) -> str:
        """Return the client's error; empty if it is served."""
        return self._run(login, topic, [b"refused"])[1]

    def _run(self, login: Login, topic: str, values: list[bytes]) -> tuple[list[bytes], str]:
        """Return the consumed values and the error."""
        done = subprocess.run(
            self.command(),
            input=json.dumps(task_of(login) | {"topic": topic, "values": [each.decode() for each in values]}),
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            env=os.environ | self.environment(),
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        return [each.encode() for each in result["values"]], result["error"]


def task_of(login: Login) -> dict[str, object]:
    """Return the fields of a login by the names that the programs read; those that it lacks are empty."""
    return {
        "address": login.address,
        "usesTls": login.uses_tls,
        "mechanism": login.mechanism or "",
        "user": login.user,
        "password": login.password,
        "isToken": login.is_token,
        "oauthbearer_token": "" if login.provider is None else login.provider.token(login.user)[0],
        "authority": str(login.authority or ""),
        "identity": str(login.identity or ""),
    }
