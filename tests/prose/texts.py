"""Texts of a Python file: docstrings, strings below attributes, and comments, each with the line it begins at."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

_DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|fmt:|ruff:|mypy:|!)")
_TRAILING_DIRECTIVE = re.compile(r"\s*#?\s*(noqa|type: ignore)\b[^#]*")


class Text(NamedTuple):
    """Prose in a source file."""

    line: int
    content: str
    is_docstring: bool


def texts_of(source: str) -> Iterator[Text]:
    """Yield every docstring and comment; comments on consecutive lines are one text."""
    yield from _docstrings(ast.parse(source))
    yield from _comments(source)


def _docstrings(tree: ast.AST) -> Iterator[Text]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield Text(statement.lineno, value.value, True)


def _comments(source: str) -> Iterator[Text]:
    begun, last, parts = 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(token.string):
            continue
        content = _TRAILING_DIRECTIVE.sub("", token.string).lstrip("# ").rstrip()
        line = token.start[0]
        if line != last + 1 and parts:
            yield Text(begun, " ".join(parts), False)
            parts = []
        if not parts:
            begun = line
        parts.append(content)
        last = line
    if parts:
        yield Text(begun, " ".join(parts), False)
