"""The commands of docs/security.md make a secured cluster of three: they run in their order, in an empty directory."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from compat_tests.harness.ports import free_ports
from kwire.own_processes import environment

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
INSTALL = "pip install"
SECONDS = 180
MARK = "@@ status"
STEPS = 10


def steps() -> dict[str, str]:
    """Return the blocks of commands by the number of their step; the block that stops the nodes has none."""
    found = {}
    text = PAGE.read_text()
    for paragraph, block in re.findall(r"^(\S.*\n(?:\S.*\n)*)\n((?: {4}.*\n|\n(?= {4}))+)", text, re.MULTILINE):
        number = re.match(r"\*\*([0-9]+)\. ", paragraph)
        lines = [line.removeprefix("    ") for line in block.splitlines()]
        if not lines[0].startswith(INSTALL):
            found[number[1] if number else "stop"] = "\n".join(lines)
    return found


def free_ports_for_page() -> dict[str, str]:
    """Return free ports for those of the page."""
    named = [f"{first}{node}" for first in ("909", "919") for node in (1, 2, 3)]
    return dict(zip(named, map(str, free_ports(len(named))), strict=True))


def with_ports(script: str) -> str:
    """Return the commands with free ports: the page's own may be in use."""
    ports = free_ports_for_page()
    for first, name in (("909", "clients"), ("919", "controllers")):
        script = script.replace(f"{first}$node", f"${{{name}[$node]}}")
    for named, port in ports.items():
        script = re.sub(rf"\b{named}\b", port, script)
    listed = [" ".join(ports[f"{first}{node}"] for node in (1, 2, 3)) for first in ("909", "919")]
    return f"clients=(0 {listed[0]}) controllers=(0 {listed[1]})\n{script}"


def run(script: str, directory: Path) -> str:
    """Return the output of a script; all processes that it leaves are killed."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    shell = subprocess.Popen(
        ["bash", "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=directory,
        env=environment() | {"PATH": path},
        start_new_session=True,
    )
    try:
        return shell.communicate(script, timeout=SECONDS)[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def test_the_page_has_ten_steps() -> None:
    assert list(steps()) == [*map(str, range(1, STEPS + 1)), "stop"]


def test_the_commands_of_the_page_make_a_secured_cluster(tmp_path: Path) -> None:
    blocks = steps()
    output = run(with_ports("\n".join(f'{block}\necho "{MARK} $?"' for block in blocks.values())), tmp_path)
    parts = re.split(rf"{MARK} ([0-9]+)\n", output)
    said = dict(zip(blocks, parts[::2], strict=False))
    status = dict(zip(blocks, map(int, parts[1::2]), strict=False))
    assert status == dict.fromkeys(blocks, 0) | {"10": 1}, output
    assert ": healthy\n" in said["6"]
    assert "RecordMetadata(topic='orders'" in said["9"]
    assert "TopicAuthorizationFailedError" in said["10"]
    logs = "".join((tmp_path / f"node-{node}.log").read_text() for node in (1, 2, 3))
    assert "User:bob" in logs
    assert not any(secret in logs for secret in ("node-secret", "admin-secret", "alice-secret", "bob-secret"))
    for private in ("ca.key", "node-1.pem", "node-1.properties", "admin.properties"):
        assert (tmp_path / private).stat().st_mode & 0o077 == 0
