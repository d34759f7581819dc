"""Page docs/metadata-records.md: a row for every metadata record type, with its effect on the image."""

from __future__ import annotations

import re
from pathlib import Path

from kwire.cluster.metadata import image
from kwire.cluster.metadata.image_records import records_of
from kwire.protocol.messages import metadata_records
from tests.cluster.drawn_logs import Draw
from tests.cluster.replayed_logs import image_after

PAGE = Path(__file__).parents[2] / "docs" / "metadata-records.md"
ROWS = dict(re.findall(r"^\| (\w+Record) \| ([a-z ]+) \|", PAGE.read_text(), re.MULTILINE))


def test_each_record_type_is_listed_once() -> None:
    """The types come from Kafka's schemas; `make compat ROW=schemas` compares them."""
    assert list(ROWS) == [record.__name__ for record in metadata_records._RECORD_TYPES.values()]
    assert set(ROWS.values()) == {"image", "held", "bracket", "no effect"}


def test_each_record_type_is_applied() -> None:
    assert {record.__name__ for record in image._CHANGES} == set(ROWS)
    without_state = {record.__name__ for record, change in image._CHANGES.items() if change is image._nothing}
    assert without_state == {name for name, does in ROWS.items() if does in ("bracket", "no effect")}


def test_acls_and_delegation_tokens_are_in_snapshots() -> None:
    written = {type(record).__name__ for seed in range(1, 60) for record in records_of(image_after(Draw(seed).log()))}
    assert {"AccessControlEntryRecord", "DelegationTokenRecord"} <= written
