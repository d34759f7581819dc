"""Runtime of coordinators: one shard for each partition of an internal topic that this broker leads.

The runtime is generic over the state in its shards. The group, transaction and share coordinators use it. One task
per runtime loads the shards one after another, so each coordinator loads at most one shard at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from kwire.cluster.partitions.partition import Partition
from kwire.coordinator.loading import Loader
from kwire.coordinator.shard import Machine, Shard, ShardState, Step
from kwire.coordinator.timers import Timers
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock

logger = logging.getLogger(__name__)

START_WAIT_S = 0.2
"""Time for which the start waits for loading, so that a small broker does not reject its first clients."""
RELOAD_PAUSE_S = 1.0
"""Pause between a broken invariant and the reload that repairs it, which limits the cost of repeated failures."""

R = TypeVar("R")
M = TypeVar("M", bound="Machine[Any]")


class CoordinatorRuntime(Generic[R, M]):
    """Shards of one coordinator, by partition index."""

    def __init__(
        self,
        *,
        make: Callable[[Timers[Step[R]]], M],
        clock: Clock,
        write_timeout_ms: int,
        count_loaded: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Create a runtime; Shard explains `write_timeout_ms`, kwire.coordinator.loading.Loader `count_loaded`."""
        self._write_timeout_ms = write_timeout_ms
        self._make = make
        self._clock = clock
        self._count_loaded = count_loaded
        self._shards: dict[int, Shard[R, M]] = {}
        self._to_load: deque[Shard[R, M]] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._stopped = False
        self.reloads = 0
        """Number of shards that were reloaded because of a broken invariant."""

    def __iter__(self) -> Iterator[Shard[R, M]]:
        """Return all shards, including loading ones."""
        return iter(list(self._shards.values()))

    def find(self, index: int) -> Shard[R, M] | None:
        return self._shards.get(index)

    def active(self, index: int) -> Shard[R, M]:
        """Return the shard if it accepts requests. Raises KafkaError with a code after which the client retries."""
        if self._stopped:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        shard = self._shards.get(index)
        if shard is None or shard.state is ShardState.CLOSED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    # --- led partitions

    async def start(self, partitions: Iterable[Partition]) -> None:
        """Serve the partitions that this broker leads; slow loading continues in the background."""
        for partition in partitions:
            self.lead(partition)
        await self.loaded(START_WAIT_S)

    def lead(self, partition: Partition) -> None:
        """Serve a partition that this broker now leads: at once if its log is empty, else after it is loaded.

        A shard that is closed, because its log could not be loaded or has failed, is replaced by a new one.
        """
        present = self._shards.get(partition.index)
        if self._stopped or (present is not None and present.state is not ShardState.CLOSED):
            return
        shard = self._add(partition)
        if partition.log.log_start_offset == partition.log.log_end_offset:
            shard.activate()
        else:
            self._load_soon(shard)

    def _add(self, partition: Partition) -> Shard[R, M]:
        shard = self._shards[partition.index] = Shard(
            partition,
            make=self._make,
            clock=self._clock,
            write_timeout_ms=self._write_timeout_ms,
            broken=self._reload,
        )
        return shard

    def _reload(self, broken: Shard[R, M]) -> None:
        """Reload a shard with a broken invariant; until then clients receive COORDINATOR_LOAD_IN_PROGRESS."""
        self.reloads += 1
        broken.close()
        if self._shards.get(broken.partition.index) is broken:
            shard = self._add(broken.partition)
            asyncio.get_running_loop().call_later(RELOAD_PAUSE_S, self._load_soon, shard)

    def serve_or_release(self, partition: Partition) -> None:
        """Serve a partition if this broker leads it, release it otherwise."""
        if partition.is_led:
            self.lead(partition)
        else:
            self.resign(partition.index)

    def resign(self, index: int) -> None:
        """Release a partition that this broker no longer leads."""
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.close()

    async def loaded(self, timeout_s: float | None = None) -> None:
        """Wait until everything is loaded, at most for the timeout."""
        if self._loading is not None:
            await asyncio.wait([self._loading], timeout=timeout_s)

    def stop(self) -> None:
        """Stop serving."""
        self._stopped = True
        self._to_load.clear()
        if self._loading is not None:
            self._loading.cancel()
        for index in list(self._shards):
            self.resign(index)

    # --- loading

    def _load_soon(self, shard: Shard[R, M]) -> None:
        if shard.state is not ShardState.LOADING:
            return  # released meanwhile
        self._to_load.append(shard)
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._load_all())

    async def _load_all(self) -> None:
        while self._to_load:
            await self._load(self._to_load.popleft())

    async def _load(self, shard: Shard[R, M]) -> None:
        if shard.state is not ShardState.LOADING:
            return
        started_ms = self._clock.monotonic_ms()
        try:
            records = await Loader(shard, self._clock, count_loaded=self._count_loaded).run()
            if shard.state is ShardState.LOADING:
                shard.activate()
                took_ms = self._clock.monotonic_ms() - started_ms
                logger.info("loaded %d records of %r in %.0f ms", records, shard.partition.log, took_ms)
        # A disk failure or an invalid record closes only this shard: its requests receive NOT_COORDINATOR.
        except (DiskFailure, KafkaError) as error:
            logger.error("%r cannot be loaded: %s", shard, error)  # noqa: TRY400 no traceback needed
            shard.close()
        except Exception:
            logger.exception("%r cannot be loaded", shard)
            shard.close()
