"""Mutated frames over sockets: a few thousand here; `make campaign` sends many more."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path

import pytest

from kwire.protocol.error_codes import ErrorCode
from tests.hostile.attack import Attack
from tests.hostile.frames import OPENED, REJECTED, TOPICS, Frames, bad_batch
from tests.support.requests import batch, create_topic, fetch, produce, values_in
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

FRAMES = 3000


def test_mutated_frames_do_not_affect_other_clients(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No request fails internally, other clients are served, no invalid batch is stored, and no memory stays in use."""
    caplog.set_level(logging.ERROR)
    frames = Frames(seed=1)
    settings = {"auto.create.topics.enable": "false"}
    with RunningBroker(tmp_path, settings) as broker, broker.client() as client:
        for name in (*TOPICS, REJECTED, "honest"):
            create_topic(client, name=name)
        create_topic(client, name=OPENED, compression_type="gzip")
        connections = broker.connection_count
        attack = Attack(broker.bootstrap_server, (frames.shot(number) for number in range(FRAMES)))
        asyncio.run(attack.run())
        assert attack.frames >= FRAMES
        assert {"answered", "closed", "held"} <= attack.outcomes.keys()
        assert produce(client, "honest", batch(b"still here")).error_code == ErrorCode.NONE
        assert values_in(fetch(client, "honest").records) == [b"still here"]
        eventually(lambda: broker.connection_count == connections, "the connections to be gone")
        assert broker.memory_used == 0
        assert fetch(client, REJECTED).high_watermark == 0
    assert [record.getMessage() for record in caplog.records] == []


def test_each_bad_batch_is_rejected_with_a_code(tmp_path: Path) -> None:
    random_source = random.Random(3)
    with RunningBroker(tmp_path) as broker, broker.client() as client:
        create_topic(client, name=REJECTED)
        codes = {produce(client, REJECTED, bad_batch(random_source)).error_code for _ in range(300)}
        assert fetch(client, REJECTED).high_watermark == 0
    assert ErrorCode.NONE not in codes
    assert {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD} <= codes
