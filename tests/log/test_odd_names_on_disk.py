"""Unknown files in a partition's directory: the log ignores them and opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.quorum.state import FILE_NAME, load_quorum_state
from kwire.cluster.raft.metadata_damage import reject_damage
from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.files import base_offset_of
from tests.log.support import batch, open_at, values

ODD = [
    "x.log.swap",
    "foo.swap",
    "x.log",
    "²" * 20 + ".log",
    "9" * 20 + ".log",
    "9" * 20 + ".log.swap",
    "x.index",
    "-1.log",
]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("also", ["", "00000000000000000000.log.cleaned", "x.cleaned"])
@pytest.mark.parametrize("name", ODD)
def test_a_log_opens_beside_files_with_odd_names(tmp_path: Path, name: str, also: str, clean: bool) -> None:
    log = open_at(tmp_path, LogConfig())
    log.append(batch(b"v"), leader_epoch=0)
    log.close(clean=True)
    for each in filter(None, (name, also)):
        (tmp_path / each).write_bytes(b"odd")
    again = open_at(tmp_path, LogConfig(), clean=clean, recovery_point=1)
    assert values(again) == [b"v"]
    assert (tmp_path / name).read_bytes() == b"odd"
    again.close(clean=True)
    reject_damage(RealDisk(), str(tmp_path))


@pytest.mark.parametrize(
    ("name", "offset"),
    [(f"{2**63 - 1:020d}.log", 2**63 - 1), (f"{2**63:020d}.log", None), ("7.log", None), ("٣" * 20 + ".log", None)],
)
def test_the_base_offset_is_parsed_from_the_segment_file_name(name: str, offset: int | None) -> None:
    assert base_offset_of(name) == offset


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"leaderId":4294967296,"leaderEpoch":1,"votedId":-1}',
        '{"leaderId":1,"leaderEpoch":"1","votedId":-1}',
    ],
)
def test_a_malformed_quorum_state_is_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(DirectoryRejected, match="cannot be read"):
        load_quorum_state(RealDisk(), str(tmp_path))
