"""Prose of a Markdown page: paragraphs, list items and table cells, without code, links' targets and raw HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"^\s*(```|~~~)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^>]*>")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_REFERENCE = re.compile(r"^\s*\[[^\]]+\]:\s")
_HEADING = re.compile(r"^#+\s+")
_LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_TABLE_ROW = re.compile(r"^\s*\|")
_TABLE_RULE = re.compile(r"^[\s|:-]+$")
_INDENTED_CODE = re.compile(r"^(?: {4}|\t)")
_CELL_END = re.compile(r"(?<!\\)\|")
_EMPHASIS = re.compile(r"\*{1,2}|(?<!\w)_{1,2}(?=\w)|(?<=\w)_{1,2}(?!\w)")
_CODE_SPAN = re.compile(r"(`+).+?\1")


def prose_of(page: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each paragraph, list item and table cell; a code span becomes `X`."""
    lines = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), page).splitlines()
    begun, parts = 1, list[str]()
    is_code = is_list = False
    for number, line in enumerate([*lines, ""], 1):
        if _FENCE.match(line):
            is_code = not is_code
        is_text = not (is_code or _FENCE.match(line) or _REFERENCE.match(line))
        is_text = is_text and (is_list or not _INDENTED_CODE.match(line))
        starts = bool(_HEADING.match(line) or _LIST_ITEM.match(line) or _TABLE_ROW.match(line))
        if parts and (not is_text or not line.strip() or starts):
            yield begun, " ".join(parts)
            parts = []
        if not is_text or not line.strip():
            continue
        if _TABLE_ROW.match(line):
            yield from _cells(line, number)
            continue
        is_list = bool(_LIST_ITEM.match(line)) or (is_list and line[0].isspace())
        if not parts:
            begun = number
        parts.append(_plain(_LIST_ITEM.sub("", _HEADING.sub("", line))))


def _cells(row: str, number: int) -> Iterator[tuple[int, str]]:
    if not _TABLE_RULE.match(row):
        for cell in _CELL_END.split(_CODE_SPAN.sub("X", row)):
            if text := _plain(cell):
                yield number, text


def _plain(text: str) -> str:
    text = _CODE_SPAN.sub("X", text)
    return _EMPHASIS.sub("", _TAG.sub(" ", _LINK.sub(r"\1", text))).strip()
