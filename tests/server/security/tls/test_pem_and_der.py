"""Blocks of PEM and elements of DER: hostile bytes are refused, at a cost that grows with their size."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from kwire.server.security.tls import der
from kwire.server.security.tls.store_files import PemBlock, pem_blocks


@given(data=st.binary(max_size=100))
def test_bytes_that_are_no_der_are_refused(data: bytes) -> None:
    try:
        assert b"".join(each.encoded for each in der.elements(data)) == data
    except ValueError:
        return


@given(text=st.text(alphabet="-BEGINDPRIVATEKYC \nA=!1", max_size=200))
def test_texts_that_are_no_pem_are_refused(text: str) -> None:
    try:
        blocks = pem_blocks(text)
    except ValueError:
        return
    assert len(blocks) <= text.count("BEGIN")


def test_blocks_without_an_end_cost_no_more_than_their_size() -> None:
    began = time.process_time()
    assert pem_blocks("-----BEGIN A-----" * 20_000) == []
    assert time.process_time() - began < 2


def test_a_block_without_an_end_hides_no_other_block() -> None:
    text = "-----BEGIN A-----\n-----BEGIN B-----\nAAAA\n-----END B-----\n-----END C-----"
    assert pem_blocks(text) == [PemBlock("B", b"\0\0\0")]
