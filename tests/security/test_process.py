"""The process of a broker and its dependencies (RELIABILITY.md, rows 56 and 57)."""

from __future__ import annotations

import ast
import re
import signal
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.processes import server

ROOT = Path(__file__).parents[2]
FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "jsonpickle", "xmlrpc"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
GENERATORS = {"kwire/protocol/schema.py", "kwire/protocol/source.py"}
"""Modules that compile codecs from the declarations of messages, and from nothing that a peer sends."""


def modules() -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in (ROOT / "kwire").rglob("*.py")}


# --- row 56


def test_row_56_nothing_that_arrives_becomes_code() -> None:
    """No module deserializes objects, evaluates text or uses a shell."""
    found = []
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [node.module or ""]
            else:
                imported = []
            found += [f"{name} imports {each}" for each in imported if each.split(".")[0] in FORBIDDEN_MODULES]
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else ""
                if called in FORBIDDEN_CALLS and name not in GENERATORS:
                    found.append(f"{name} calls {called}")
                if any(word.arg == "shell" for word in node.keywords):
                    found.append(f"{name} uses a shell")
            if isinstance(node, ast.Attribute) and node.attr in {"system", "popen", "create_subprocess_shell"}:
                found.append(f"{name} uses {node.attr}")
    assert found == []


def test_row_56_a_broker_writes_no_core_dump_and_has_random_hashes(tmp_path: Path) -> None:
    with server(tmp_path / "data") as running:
        limits = Path(f"/proc/{running.process.pid}/limits").read_text()
        line = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
        assert line.split()[4:6] == ["0", "0"]
        assert hash_seed(str(running.process.pid)) == hash_seed("self"), "the tests' own, if they have one"
        assert running.signal_and_wait(signal.SIGTERM) == 0


def hash_seed(process: str) -> list[bytes]:
    environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return [each for each in environment if each.startswith(b"PYTHONHASHSEED=")]


def test_row_56_only_the_simulator_fixes_hashes() -> None:
    using = {name for name in modules() if "PYTHONHASHSEED" in (ROOT / name).read_text()}
    assert {name.split("/")[1] for name in using} <= {"simulation"}
    for name in ("docker/Dockerfile", "docker/compose.yaml", "docker/cluster.yaml", "docker/secured.yaml"):
        assert "PYTHONHASHSEED" not in (ROOT / name).read_text()


def test_row_56_the_image_runs_without_root_and_its_directories_are_private() -> None:
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    last_stage = lines[max(index for index, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert [line for line in last_stage if line.startswith("USER ")] == ["USER kwire"]
    assert any("install --directory --mode=0700 --owner=kwire" in line for line in last_stage)


# --- row 57


def test_row_57_the_broker_has_few_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=;\[ ]", each)[0] for each in project["dependencies"]}
    assert len(names) <= 10
    assert "pip" not in names


def test_row_57_the_image_installs_pinned_files_only() -> None:
    """`make lock` writes the versions and hashes; pip accepts no other file."""
    pinned: dict[str, str] = {}
    hashes: dict[str, int] = {}
    name = ""
    for line in (ROOT / "docker" / "requirements.txt").read_text().splitlines():
        if found := re.match(r"([a-z0-9-]+)==(\S+)", line):
            name, pinned[found[1]] = found[1], found[2]
        hashes[name] = hashes.get(name, 0) + line.count("--hash=sha256:")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in map(Requirement, project["dependencies"]):
        assert requirement.specifier.contains(pinned[requirement.name]), f"{requirement}: run `make lock`"
    assert [each for each in pinned if not hashes[each]] == []
    docker = (ROOT / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    installs = [line for line in docker.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert {"--no-deps", "--no-build-isolation", "--no-index"} <= set(installs[1].split())


def test_row_57_codecs_are_called_with_bounds() -> None:
    """The C codecs are reached through one module, which bounds what they may return; tests/protocol fuzzes it."""
    using = {name for name, tree in modules().items() if "cramjam" in imported_by(tree)}
    assert using == {"kwire/protocol/compression.py"}


def imported_by(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names
