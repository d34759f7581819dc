"""kwire, the broker under test, as a process that starts as users start it."""

import sys
from pathlib import Path

from compat_tests.harness.process import SETTINGS, BrokerProcess, write_properties


class KwireBroker(BrokerProcess):
    name = "kwire"

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(directory, port)
        self.properties = directory / "server.properties"

    def prepare(self) -> None:
        own = {
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.directory / "data"),
        }
        write_properties(self.properties, {**own, **SETTINGS, **self.more_settings})

    def command(self) -> list[str]:
        return [sys.executable, "-m", "kwire", "server", str(self.properties)]
