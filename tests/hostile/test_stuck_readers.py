"""Reads with read_committed: not blocked by a transaction that no producer can end."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from kwire.protocol.error_codes import ErrorCode
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce_request, values_in

ATTRIBUTES, CRC = 21, 17
TRANSACTIONAL = 0x10


def transactional(value: bytes, producer_id: int) -> bytes:
    epoch, sequence = (0, 0) if producer_id >= 0 else (-1, -1)
    data = bytearray(batch(value, producer_id=producer_id, producer_epoch=epoch, sequence=sequence))
    struct.pack_into(">h", data, ATTRIBUTES, TRANSACTIONAL)
    struct.pack_into(">I", data, CRC, crc32c(bytes(data[ATTRIBUTES:])))
    return bytes(data)


@pytest.mark.parametrize(
    ("producer_id", "transactional_id", "code"),
    [
        (-1, None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (77, None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (77, "orders", ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_a_transactional_batch_of_no_transaction_is_rejected(
    client: RawClient, producer_id: int, transactional_id: str | None, code: ErrorCode
) -> None:
    topic, _ = create_topic(client)
    request = produce_request(topic, transactional(b"held", producer_id))
    request.transactional_id = transactional_id
    assert client.ask(request, 11).responses[0].partition_responses[0].error_code == code

    assert client.ask(produce_request(topic, batch(b"free")), 11).responses[0].partition_responses[0].error_code == 0
    answer = fetch(client, topic, isolation_level=1)
    assert answer.last_stable_offset == 1
    assert values_in(answer.records) == [b"free"]
