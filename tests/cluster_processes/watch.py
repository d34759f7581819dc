"""Watch of the leaders: repeated requests to every controller; each epoch has one leader, with the time of its first
sighting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.cluster_processes.nodes import ControllerNode
from tests.support.raw_client import RawClient

QUESTION = DescribeQuorumRequest(
    topics=[
        DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
    ]
)
VERSION = 2
ROUND_SECONDS = 0.03
ANSWER_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Response of a controller that leads and has committed a record in its epoch."""

    seconds: float
    """Time of the response, by time.monotonic()."""
    epoch: int
    leader: int


class Watch:
    """Thread that requests the leader from all controllers until it is closed."""

    def __init__(self, nodes: Sequence[ControllerNode]) -> None:
        self._nodes = nodes
        self._clients: dict[int, RawClient] = {}
        self._stop = threading.Event()
        self._first: dict[int, Sighting] = {}
        self._last: dict[int, Sighting] = {}
        """Last sighting by epoch."""
        self.problems: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def leaders(self) -> dict[int, int]:
        """Return the leader of each observed epoch."""
        return {epoch: sighting.leader for epoch, sighting in dict(self._first).items()}

    @property
    def newest_epoch(self) -> int:
        return max(self.leaders, default=0)

    def first_after(self, epoch: int, seconds: float) -> Sighting | None:
        """Return the first sighting of a leader of a later epoch since that time."""
        seen = [it for it in dict(self._first).values() if it.epoch > epoch and it.seconds >= seconds]
        return min(seen, key=lambda it: it.seconds, default=None)

    def newest_since(self, seconds: float) -> Sighting | None:
        """Return the leader of the newest epoch, if it was seen since that time."""
        last = dict(self._last).get(self.newest_epoch)
        return last if last is not None and last.seconds >= seconds else None

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for node_id in list(self._clients):
            self._forget(node_id)

    def _run(self) -> None:
        while not self._stop.wait(ROUND_SECONDS):
            for node in self._nodes:
                if node.is_answering:
                    self._look(node)

    def _look(self, node: ControllerNode) -> None:
        try:
            if node.node_id not in self._clients:
                self._clients[node.node_id] = node.connect(ANSWER_SECONDS)
            partition = self._clients[node.node_id].ask(QUESTION, VERSION).topics[0].partitions[0]
        except OSError:
            self._forget(node.node_id)
            return
        if partition.error_code == ErrorCode.NONE and partition.high_watermark > 0:
            self._note(node.node_id, partition)

    def _note(self, node_id: int, partition: Any) -> None:
        seen = Sighting(seconds=time.monotonic(), epoch=partition.leader_epoch, leader=node_id)
        first = self._first.setdefault(seen.epoch, seen)
        self._last[seen.epoch] = seen
        if not node_id == partition.leader_id == first.leader:
            self.problems.append(f"epoch {seen.epoch} has the leaders {first.leader} and {node_id}")

    def _forget(self, node_id: int) -> None:
        client = self._clients.pop(node_id, None)
        if client is not None:
            with suppress(OSError):
                client.close()
