"""The linter on files: Python sources by docstring and comment, Markdown pages by paragraph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.prose.pages import prose_of
from tests.prose.rules import findings
from tests.prose.texts import texts_of

HISTORY: Final = ("CHANGELOG.md", "docs/reviews.md", "docs/decisions/", "docs/evidence/")
"""Pages that are not linted: records of what was found, decided or measured at a date, in the words of that date."""
PAGES: Final = (".", "docs", "docs/operations", "docker", "examples", "kwire")
"""Folders with pages; in kwire and docker, those of all their subfolders."""


def findings_in(path: Path) -> Iterator[str]:
    """Yield "file:line: finding" for a file, or for all Python files below a folder."""
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        if file.suffix == ".md":
            yield from findings_in_page(file)
            continue
        for text in texts_of(file.read_text()):
            for finding in findings(text.content, is_docstring=text.is_docstring):
                yield f"{file}:{text.line}: {finding}"


def findings_in_page(file: Path) -> Iterator[str]:
    """Yield "file:line: finding" for a Markdown page."""
    for line, text in prose_of(file.read_text()):
        for finding in findings(text, is_docstring=False):
            yield f"{file}:{line}: {finding}"


def pages_in(root: Path) -> list[Path]:
    """Return the pages of the repository that are linted."""
    found = {
        page
        for folder in PAGES
        for page in (root / folder).glob("**/*.md" if folder in ("kwire", "docker") else "*.md")
        if not str(page.relative_to(root)).startswith(HISTORY)
    }
    return sorted(found)
