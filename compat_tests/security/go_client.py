"""Client of franz-go: a program in Go, compiled once below .cache/franz-go."""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat_tests.franz_go.building import GO, HOME, MODULE, VERSION, environment, go
from compat_tests.harness.install import fetched, install
from compat_tests.security.programs import Program

SOURCE = Path(__file__).parent / "go" / "main.go"


class FranzGo(Program):
    def command(self) -> Sequence[str]:
        digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
        return [str(fetched(HOME / f"secured-{VERSION}-{digest}", _compile) / "client")]


def _compile(directory: Path) -> None:
    install("go")
    requirement = f"require {MODULE} v{VERSION}"
    (directory / "go.mod").write_text(f"module kwire.compat/secured\n\ngo {GO}\n\n{requirement}\n")
    shutil.copy(SOURCE, directory)
    command = [go(), "build", "-mod=mod", "-o", "client", "."]
    subprocess.run(command, check=True, cwd=directory, env=environment())
