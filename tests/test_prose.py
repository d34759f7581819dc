"""Docstrings, comments and pages follow docs/words.md, and the linter finds those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose.files import findings_in, findings_in_page, pages_in
from tests.prose.pages import prose_of
from tests.prose.rules import SENTENCE_WORDS_MAX, findings
from tests.prose.texts import texts_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("folder", ["kwire", "tests", "compat_tests", "spark_jobs", "benchmarks", "docker", "examples"])
def test_the_prose_has_no_findings(folder: str) -> None:
    assert list(findings_in(ROOT / folder)) == []


def test_the_pages_have_no_findings() -> None:
    pages = pages_in(ROOT)
    assert {"README.md", "ARCHITECTURE.md", "SECURITY.md", "spark.md", "rolling-restart.md"} <= {
        it.name for it in pages
    }
    assert [finding for page in pages for finding in findings_in_page(page)] == []


@pytest.mark.parametrize(
    "bad",
    [
        "A client is told of the new leader.",
        "- an item about a broker\n  that nobody knows",
        "| column | other |\n|---|---|\n| fine | who leads |",
        "1. " + "words " * (SENTENCE_WORDS_MAX + 1),
        "A [link that nobody follows](docs/words.md).",
    ],
)
def test_a_bad_page_is_found(tmp_path: Path, bad: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\nA sentence.\n\n{bad}\n")
    (finding,) = findings_in_page(page)
    assert int(finding.split(":")[1]) >= 5


def test_a_page_is_read_without_its_code() -> None:
    page = (
        "# A title\n\n"
        "One paragraph with `code who`\non two lines and a [link](who.md).\n\n"
        "```\nwho leads\n```\n\n"
        "    an indented command that nobody types\n\n"
        "<!-- a comment: who -->\n"
        "- an item\n  on two lines\n"
        "- another `one | two`\n\n"
        "| a | `b who` |\n|---|---|\n| c | d |\n\n"
        "[words]: who.md\n"
    )
    assert [text for _, text in prose_of(page)] == [
        "A title",
        "One paragraph with X on two lines and a link.",
        "an item on two lines",
        "another X",
        *("a", "X", "c", "d"),
    ]


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
