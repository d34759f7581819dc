"""Client of kafkajs: a program in JavaScript, whose package npm installs once below .cache/kafkajs."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat_tests.harness.install import fetched, install
from compat_tests.harness.paths import CACHE
from compat_tests.security.programs import Program

VERSION = "2.2.4"
SOURCE = Path(__file__).parent / "node" / "client.js"


class KafkaJs(Program):
    def command(self) -> Sequence[str]:
        return ["node", str(SOURCE)]

    def environment(self) -> Mapping[str, str]:
        return {"NODE_PATH": str(fetched(CACHE / "kafkajs" / VERSION, _install) / "node_modules")}


def _install(directory: Path) -> None:
    install("node")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(directory)]
    subprocess.run([*command, f"kafkajs@{VERSION}"], check=True)
