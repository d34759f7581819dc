"""The linter on files: Python sources by docstring and comment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.prose.rules import findings
from tests.prose.texts import texts_of


def findings_in(path: Path) -> Iterator[str]:
    """Yield "file:line: finding" for a file, or for all Python files below a folder."""
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        for text in texts_of(file.read_text()):
            for finding in findings(text.content, is_docstring=text.is_docstring):
                yield f"{file}:{text.line}: {finding}"
