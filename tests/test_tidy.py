"""The style page as a test: sizes, forbidden words, names, and the signposts in the root folder."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import kwire

ROOT = Path(__file__).parents[1]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|WIP)\b")  # these words would match this test itself
SIGNPOSTS = ("log", "cluster")


@cache
def tracked(*patterns: str) -> list[Path]:
    """Return the files in git without the signposts; without git, all files that exist."""
    if not (ROOT / ".git").exists():
        return sorted(path for pattern in patterns for path in ROOT.glob(f"kwire/**/{pattern}"))
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


SOURCES = [path for path in tracked("*.py") if path != Path(__file__)]
PRODUCT = [path for path in SOURCES if path.is_relative_to(ROOT / "kwire")]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_the_list_of_source_files_is_not_empty() -> None:
    assert len(PRODUCT) > 100


def test_functions_are_short() -> None:
    long = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long


def test_files_are_short() -> None:
    sizes = {name_of(path): path.read_text().count("\n") for path in SOURCES}
    assert not {name: size for name, size in sizes.items() if size > FILE_LINES_MAX}


def test_no_todo_markers_are_left() -> None:
    left = [
        f"{name_of(path)}:{number} {line.strip()}"
        for path in tracked("*.py", "*.md", "*.toml", "*.yml", "Makefile")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not left


def test_each_module_has_a_docstring() -> None:
    silent = [name_of(path) for path in PRODUCT if tree_of(path).body and ast.get_docstring(tree_of(path)) is None]
    assert not silent


def test_loggers_have_one_name() -> None:
    odd = [
        f"{name_of(path)}:{node.lineno}"
        for path in PRODUCT
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assign)
        and "getLogger(" in ast.unparse(node.value)
        and [ast.unparse(target) for target in node.targets] != ["logger"]
    ]
    assert not odd


def test_the_package_does_not_call_print() -> None:
    calls = [
        f"{name_of(path)}:{node.lineno}"
        for path in PRODUCT
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    ]
    assert not calls


@pytest.mark.parametrize("name", SIGNPOSTS)
def test_top_level_links_point_into_the_package(name: str) -> None:
    link = ROOT / name
    if not link.is_symlink():
        pytest.skip("checked out where there are no symbolic links")
    assert os.readlink(link) == f"kwire/{name}"  # noqa: PTH115 the text of the link itself
    assert link.is_dir()


def test_no_module_imports_through_the_top_level_links() -> None:
    modules = re.compile(rf"^\s*(?:from|import)\s+(?:{'|'.join(SIGNPOSTS)})\b", re.MULTILINE)
    assert not [name_of(path) for path in SOURCES if modules.search(path.read_text())]


def test_the_package_exports_documented_names() -> None:
    assert sorted(kwire.__all__) == ["Broker", "BrokerFailedError"]
    assert all(getattr(kwire, name).__doc__ for name in kwire.__all__)
    with pytest.raises(AttributeError):
        _ = kwire.Brocker


def test_tests_assert_something() -> None:
    """A test uses an assertion, pytest.raises, or a helper of the same file that does."""
    idle = []
    for path in SOURCES:
        if not path.name.startswith("test_") or not path.is_relative_to(ROOT / "tests"):
            continue
        tree = tree_of(path)
        helpers = {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and checks(node)
        }
        idle += [
            f"{name_of(path)} {node.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("test_")
            and not checks(node)
            and not any(isinstance(each, ast.Name) and each.id in helpers for each in ast.walk(node))
        ]
    assert not idle


def checks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    source = ast.unparse(function)
    return "assert " in source or "assert_" in source or "raises(" in source or "eventually(" in source


def test_loggers_are_named_like_their_modules() -> None:
    odd = [
        f"{name_of(path)}:{node.lineno}"
        for path in PRODUCT
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "logger"
        and ast.unparse(node.value) != "logging.getLogger(__name__)"
        and path != ROOT / "kwire/simulation/loop.py"  # an event loop, whose messages asyncio expects in its own logger
    ]
    assert not odd
