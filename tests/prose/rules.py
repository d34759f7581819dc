"""Rules for prose: how a docstring begins, which words are not used, and how long a sentence may be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

SENTENCE_WORDS_MAX: Final = 28
"""The guide asks for 25; a few more are allowed, because names in code count as words."""

_OPENING = re.compile(
    r"(Of|What|Whatever|Whether|Who|Whom|Whose|Whoever|It|Its|He|They|Their|That|This|Those|These|There|One|Ones|"
    r"Somebody|Nobody|Anybody|Something)\b"
)
_WORDS: Final = {
    r"who|whom|whoever": "a component is 'it': name it",
    r"somebody|someone|anybody|anyone|nobody": "name the component, or use the passive voice",
    r"told|tells?|telling": "is notified, receives, returns, reports",
    r"hears?|heard": "is notified, receives",
    r"wish|wishes|wished": "request",
    r"visas?": "verification",
    r"bearers?": "name the component",
    r"chance": "random number generator",
    r"judges?|judged|judging": "check, validate",
    r"whereof|thereof|wherein|therein": "say it in two sentences",
}
_BANNED: Final = [(re.compile(rf"\b({words})\b", re.IGNORECASE), instead) for words, instead in _WORDS.items()]
_CODE = re.compile(r"``?[^`]*``?|\"[^\"]*\"|\b\w+\([^)]*\)|[\w/]+\.(?:py|md)\b|\b[\w]+(?:[._]\w+)+\b")
_LIST_LINE = re.compile(r"^(\d+\. |- )")
_TABLE_LINE = re.compile(r"^(\||    |\t|\d+  )")
_SENTENCE_END = re.compile(r"[.!?:;](?:\s|$)")


def findings(content: str, *, is_docstring: bool) -> Iterator[str]:
    """Yield what a text does against the rules."""
    if is_docstring and (opening := _OPENING.match(content.lstrip())):
        yield f"a docstring does not begin with {opening[1]!r}: name the thing, or begin with a verb"
    plain = _CODE.sub("X", content)
    for pattern, instead in _BANNED:
        for found in pattern.finditer(plain):
            yield f"{found[0]!r}: {instead}"
    for paragraph in _paragraphs(plain):
        for sentence in _SENTENCE_END.split(paragraph):
            count = len(sentence.split())
            if count > SENTENCE_WORDS_MAX:
                yield f"a sentence of {count} words: {' '.join(sentence.split()[:8])} ..."


def _paragraphs(content: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*inspect.cleandoc(content).splitlines(), ""]:
        text = line.strip()
        if not text or _TABLE_LINE.match(line):
            yield " ".join(lines)
            lines = []
        elif _LIST_LINE.match(line):
            yield " ".join(lines)
            lines = [text]
        else:
            lines.append(text)
