"""The command `kwire config explain`, and the documentation page that it generates."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.cli import main

ROOT = Path(__file__).parents[1]


def explain(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["config", "explain", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def test_the_page_in_the_docs_is_what_the_command_prints() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == explain("--markdown")


@pytest.mark.parametrize("more", [["log.retention.ms"], ["--topic"], ["--search", "fsync"]])
def test_the_page_is_written_whole_or_not_at_all(more: list[str]) -> None:
    assert "whole page" in explain("--markdown", *more, status=2)


def test_a_key_is_explained() -> None:
    text = explain("log.retention.ms")
    assert text.startswith("log.retention.ms\n    Milliseconds after which")
    for words in ("long", "cluster-wide: while the broker runs", "honoured", "the topic's retention.ms"):
        assert words in text


def test_a_key_of_topics_and_brokers_is_explained_for_both() -> None:
    assert [explain("compression.type").count(kind) for kind in ("a topic\n", "a broker\n")] == [1, 1]
    assert [explain("compression.type", "--topic").count(kind) for kind in ("a topic\n", "a broker\n")] == [1, 0]


def test_a_default_that_differs_from_kafkas_is_printed_with_kafkas() -> None:
    assert "0 (Kafka: 3000)" in explain("group.initial.rebalance.delay.ms")
    assert "rejected, any value but the default" in explain("security.providers")


def test_the_value_from_a_properties_file_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=7\n")
    assert "7, from the file" in explain("num.partitions", "--file", str(file))
    assert "2147483647, default" in explain("max.connections", "--file", str(file))
    assert "No such file" in explain("num.partitions", "--file", str(tmp_path / "none"), status=1)


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("topic", "retention.ms"),
        ("broker", "num.io.threads"),
        ("group", "share.isolation.level"),
        ("client-metrics", "match"),
    ],
)
def test_each_list_option_prints_keys_of_one_kind(kind: str, some: str) -> None:
    lines = explain(f"--{kind}").splitlines()
    assert {each.split()[1] for each in lines} == {kind}
    assert some in {each.split()[0] for each in lines}


def test_a_search_matches_names_and_descriptions() -> None:
    names = [each.split()[0] for each in explain("--search", "fsync").splitlines()]
    assert {"flush.ms", "log.flush.interval.messages"} <= set(names)
    assert len(explain("--search", "RETENTION").splitlines()) > 5
    assert len(explain().splitlines()) == 420


def test_a_wrong_name_gets_a_hint() -> None:
    assert "did you mean log.retention.ms" in explain("log.retention.msec", status=1)
    assert "--search" in explain("zzz", status=1)


def test_a_password_in_a_file_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("ssl.keystore.password=planted")
    output = explain("ssl.keystore.password", "--file", str(tmp_path / "server.properties"))
    assert "[hidden], from the file" in output
    assert "planted" not in output
