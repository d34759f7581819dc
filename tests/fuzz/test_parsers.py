"""Kept inputs of all parsers: each keeps the contract of its target. `make campaign PARSERS=180` finds new ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.protocol.error_codes import ProtocolError
from tests.fuzz.parsers.catalogue import GROUPS, TARGETS
from tests.fuzz.parsers.corpus import FOLDER, minimised, read_group, write_group
from tests.fuzz.parsers.measuring import LimitExceededError, check_limits, check_memory, features_of
from tests.fuzz.parsers.target import STEPS_BASE, Target

CORPUS_BYTES_MAX = 600_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("group", GROUPS)
def test_the_kept_inputs_keep_the_contract(group: str) -> None:
    """Also the first inputs of each target do, which a campaign may leave out of the kept ones."""
    kept = read_group(group)
    assert kept.keys() == {target.name for target in GROUPS[group]}, "each target has kept inputs"
    for target in GROUPS[group]:
        for data in {*kept[target.name], *target.seeds()}:
            try:
                check_limits(target, data)
            except Exception as error:
                error.add_note(f"target {target.name}, input {data!r}")
                raise


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < CORPUS_BYTES_MAX


# --- the machinery


def _loop(data: bytes) -> None:
    from kwire.properties_files import escape_value

    for _ in range(STEPS_BASE):
        escape_value("x")


def _raise(data: bytes) -> None:
    raise ProtocolError("rejected")


def _target(parse: object, *rejections: type[Exception]) -> Target:
    assert callable(parse)
    return Target("test", parse, rejections, lambda: [b""])


def test_a_rejection_is_an_outcome_and_any_other_error_is_a_fault() -> None:
    assert _target(_raise, ProtocolError).check(b"") == "ProtocolError: rejected"
    with pytest.raises(ProtocolError):
        _target(_raise, ValueError).check(b"")


def test_too_many_steps_are_a_fault() -> None:
    with pytest.raises(LimitExceededError, match="steps"):
        check_limits(_target(_loop), b"")


def test_too_much_memory_is_a_fault() -> None:
    with pytest.raises(LimitExceededError, match="bytes allocated"):
        check_memory(_target(lambda _: bytes(50_000_000)), b"")


def test_a_corpus_survives_its_file(tmp_path: Path) -> None:
    inputs = {"a target": [b"", b"\0\n:", b"x" * 100], "b": [b"b"]}
    write_group("group", inputs, tmp_path)
    assert read_group("group", tmp_path) == inputs
    assert read_group("another", tmp_path) == {}


def test_a_minimised_corpus_has_the_shortest_inputs_that_cover_the_same() -> None:
    target = TARGETS["jaas"][1]
    inputs = [b"abc", b"a", b"a required c=d;", b"x required z=wwww;"]
    assert minimised({data: features_of(target, data) for data in inputs}) == [b"a", b"a required c=d;"]
