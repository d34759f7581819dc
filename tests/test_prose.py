"""Docstrings and comments follow docs/words.md, and the linter finds those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose.files import findings_in
from tests.prose.rules import SENTENCE_WORDS_MAX, findings
from tests.prose.texts import texts_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("folder", ["kwire", "tests", "compat_tests", "spark_jobs", "benchmarks", "docker", "examples"])
def test_the_prose_has_no_findings(folder: str) -> None:
    assert list(findings_in(ROOT / folder)) == []


@pytest.mark.parametrize(
    "text",
    [
        "What a broker knows of a partition.",
        "Whether the log is offline.",
        "Return who leads the partition.",
        "Return the request that a client was told of.",
        "A node that nobody has heard of.",
        " ".join(["Append"] + ["records"] * SENTENCE_WORDS_MAX),
    ],
)
def test_a_text_against_the_rules_is_found(text: str) -> None:
    assert list(findings(text, is_docstring=True))


@pytest.mark.parametrize(
    "text",
    [
        "Return the leader of a partition, or None without one.",
        "True if the log is offline.",
        "Read `who` and call tell(who): names in code are not prose.",
        "Versions:\n    3  what nobody reads any more is a table's line " + "with many words " * 10,
        "One sentence. " * 20,
    ],
)
def test_a_text_by_the_rules_is_not(text: str) -> None:
    found = [each for each in findings(text, is_docstring=False) if "sentence" in each]
    assert not found


def test_docstrings_attribute_strings_and_comments_are_read() -> None:
    source = (
        '"""A module."""\n'
        "x = 1\n"
        '"""An attribute."""\n'
        "# One comment\n"
        "# on two lines.\n"
        "y = 2  # noqa: E501 a reason\n"
        'z = "no prose"\n'
    )
    found = [(text.line, text.content, text.is_docstring) for text in texts_of(source)]
    assert found == [
        (1, "A module.", True),
        (3, "An attribute.", True),
        (4, "One comment on two lines.", False),
    ]
