"""Modules compiled into the platform wheels: mypyc must accept them, although it rejects some valid Python."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATE = """
import sys, tempfile
from mypyc.build import mypyc_build
from mypyc.options import CompilerOptions
from setup import hot_modules
with tempfile.TemporaryDirectory() as target:
    mypyc_build(hot_modules(), CompilerOptions(target_dir=target))
"""
"""Generates the C sources of all modules; compiling the C code would take minutes and find nothing more."""


@pytest.mark.long
def test_the_hot_path_can_be_compiled(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GENERATE],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "MYPY_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def nested_generators(node: ast.AST, path: str, *, is_nested: bool = False) -> Iterator[str]:
    """Yield the location of each generator function that is defined inside another function."""
    for child in ast.iter_child_nodes(node):
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if is_nested and isinstance(child, ast.FunctionDef) and any(map(is_yield, own_nodes(child))):
            yield f"{path}:{child.lineno} {child.name}"
        yield from nested_generators(child, path, is_nested=is_nested or is_function)


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of nested functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from own_nodes(child)


def is_yield(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield | ast.YieldFrom)


def test_no_generator_is_nested(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled nested generator raises AttributeError if it is closed after its end; forwarded requests had no
    response.
    """
    monkeypatch.chdir(ROOT)
    sources = [ROOT / name for name in runpy.run_path("setup.py")["hot_modules"]()]
    assert sources
    found = [each for path in sources for each in nested_generators(ast.parse(path.read_text()), path.name)]
    assert found == []


def test_nested_generators_are_found() -> None:
    source = "def outer():\n    def inner():\n        if True:\n            yield\n    yield lambda: (yield)\n"
    assert list(nested_generators(ast.parse(source), "x.py")) == ["x.py:2 inner"]
