"""Bugs of parsers, which coverage-guided fuzzing also finds from the first inputs of a target alone:

python -m tests.campaign.parsers --seconds 60 --only jks --planted-bug "a store is read beyond its end"
"""

from __future__ import annotations

import base64
import zlib
from typing import Any, Final

import pytest

from kwire.cluster import directory
from kwire.protocol import compression
from kwire.server.security.sasl import scram
from kwire.server.security.tls import jks
from tests.planted.bug import Catalogue

PARSER_BUGS: Final = Catalogue()
bug = PARSER_BUGS.bug
REPLAY: Final = "fuzz/test_parsers.py::test_the_kept_inputs_keep_the_contract"


@bug("P1", f"{REPLAY}[stores]")
def a_store_is_read_beyond_its_end(patch: pytest.MonkeyPatch) -> None:
    """A field of a JKS store that is cut off is shorter than it should be."""

    def take(reader: Any, count: int) -> bytes:
        found: bytes = reader._data[reader.position : reader.position + count]
        reader.position += count
        return found

    patch.setattr(jks._Reader, "take", take)


@bug("P1", f"{REPLAY}[logins]")
def a_proof_need_not_be_base64(patch: pytest.MonkeyPatch) -> None:
    """A SCRAM proof that is no base64 raises an internal error."""
    patch.setattr(scram, "_bytes", base64.b64decode)


@bug("P1", f"{REPLAY}[wire]")
def gzip_data_have_no_limit(patch: pytest.MonkeyPatch) -> None:
    """Decompressed gzip data may have any size."""

    def unlimited(data: compression.Data, bytes_max: int) -> bytes:
        try:
            return zlib.decompress(data, wbits=31)
        except zlib.error as error:
            raise compression.CompressionError from error

    patch.setattr(compression, "_decompress_gzip", unlimited)


@bug("P1", f"{REPLAY}[files]")
def a_cluster_id_is_written_without_escapes(patch: pytest.MonkeyPatch) -> None:
    """meta.properties has the cluster id as it is, also with a backslash."""
    patch.setattr(directory, "escape_value", str)
