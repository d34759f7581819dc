"""Measurement of the time for a line of Python on this machine, in a broker that answers about thousands of topics.

    python -m tests.simulation.line_costs

kwire.simulation.costs charges SECONDS_PER_LINE.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from kwire.chunks import at_once
from kwire.protocol.codec import encode, pieces_decoder
from kwire.protocol.framing import pieces_framer
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.simulation.costs import SECONDS_PER_LINE, LineCosts
from kwire.simulation.loop import virtual_loop

TOPICS = 5000
ROUNDS = 5
VERSION = 12


def main() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(TOPICS)])
    partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
    answer = MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponseTopic(
                name=f"t{number}",
                partitions=[partition],
            )
            for number in range(TOPICS)
        ],
    )
    sent = bytearray()
    encode(request, VERSION, sent)
    works: dict[str, Callable[[], object]] = {
        "decode": lambda: at_once(pieces_decoder(MetadataRequest, VERSION)(bytes(sent), 0)),
        "encode": lambda: at_once(pieces_framer(MetadataResponse, VERSION)(1, answer)),
    }
    print(f"charged: {SECONDS_PER_LINE * 1e9:.0f} ns")
    for name, work in works.items():
        work()
        print(f"{name}: {_seconds(work) / _lines(work) * 1e9:.0f} ns a line")


def _seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def _lines(work: Callable[[], object]) -> int:
    with virtual_loop() as loop:
        costs = LineCosts()
        return round(costs.run(asyncio.Handle(work, (), loop)) / SECONDS_PER_LINE)


if __name__ == "__main__":
    main()
