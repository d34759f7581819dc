"""Fair sharing of the event loop's time: the connection that has used least time is served next.

While one client's request is served, all other clients wait, however few bytes it has. So requests are served in turns.
A turn runs between two polls of the loop's sockets, for TURN_MS at most. A connection's share of it is SHARE_MS. If its
requests take longer, it waits in a queue that is ordered by the time that each connection has used.

This is start-time fair queueing (Goyal, Vin and Cheng, 1996) with time in place of bytes. A connection that was idle
gets no credit for it. A connection that floods the broker waits behind the others, and gets the time that no other
connection needs. Replication, the quorum and timers are other callbacks of the loop: they run between two turns.

While the loop has time for all connections, a request is served in the read that received it, at the cost of two reads
of the clock.

A response that takes long is made in pieces, by a generator that yields where another connection may be served. After
FREE_MS it needs one of SLOTS_MAX slots to continue. This bounds the memory of long responses that are not complete,
and cheap requests do not wait for expensive ones.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Final, Protocol

TURN_MS: Final = 2.0
SHARE_MS: Final = 1.0
FREE_MS: Final = 10.0
SLOTS_MAX: Final = 8
DEBT_MS_MAX: Final = 1.0
"""Maximum time beyond the virtual time that is charged to a connection without further requests.

A short request may have taken long for another reason: the process did not run, or garbage was collected.
"""
NODE_CREDIT_MS: Final = 10.0
"""Advantage of brokers and controllers that have a listener of their own.

Their replication, heartbeats and votes go before clients' requests until they have used that much more of the time.
"""
ELEMENT_BYTES_PER_MS: Final = 10_000
"""Approximate bytes of a request that are served per millisecond: an element of ten bytes takes 1 to 2 us."""
RECORD_BYTES_PER_MS: Final = 200_000
"""Approximate bytes of a Produce request that are served per millisecond: one element is a whole batch."""
ESTIMATE_MS_MAX: Final = 10.0
"""Highest estimate for a waiting request. A longer one is served in pieces, and each piece is counted afterwards."""


class Share:
    """Time of the event loop that one connection has used."""

    __slots__ = (
        "credit_ms",
        "estimate_ms",
        "has_slot",
        "is_node",
        "is_queued",
        "pieces_ms",
        "used_ms",
        "waits_for_slot",
    )

    def __init__(self, *, is_node: bool = False) -> None:
        self.is_node = is_node
        """True for a listener that only nodes use."""
        self.credit_ms = NODE_CREDIT_MS if is_node else 0.0
        """Time that is subtracted from its place in the queue."""
        self.used_ms = 0.0
        """Virtual time of the connection: that of the queue when the connection was last served, plus its share."""
        self.estimate_ms = 0.0
        """Estimate for the next request, from the last ones: cheap requests go before expensive ones.

        It grows step by step, because one request may take long by accident.
        """
        self.is_queued = False
        self.pieces_ms = 0.0
        """Time used by the current response in pieces; set to 0 when it begins."""
        self.has_slot = False
        """True if the connection has one of the slots for responses in pieces."""
        self.waits_for_slot = False


class Client(Protocol):
    """Connection that is served in turns."""

    share: Share

    def serve_share(self) -> None:
        """Serve requests until `request_ends_share` returns True, then call `end`, and wait in the queue again."""


class Turns:
    """Scheduler that divides the time of one event loop among the connections."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._queue: list[tuple[float, int, Client]] = []
        self._queued_count = 0
        self._virtual_ms = 0.0
        """Virtual time of the queue: that of the connection that was served last."""
        self.turn_ended: list[Callable[[], None]] = []
        """Callbacks after each turn of queued connections, before the next one: responses are written then."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_turn = False
        self._turn_end_ms = 0.0
        self._share_start_ms = 0.0
        self._share_end_ms = 0.0
        self._seen_ms = 0.0
        """Time of the last read of the clock."""
        self._served_count = 0
        self._slots_taken = 0
        self._waiting_for_slot: list[tuple[float, int, Client]] = []

    # --- shares

    def begin(self, share: Share) -> bool:
        """Begin a share and return True, then `end` must follow; return False if the connection must be queued."""
        now = self._now_ms()
        if not self._is_turn:
            self._is_turn = True
            self._turn_end_ms = now + TURN_MS
            self._soon()
        elif self._queue or now >= self._turn_end_ms:
            return False
        self._start(share, now)
        return True

    def _start(self, share: Share, now_ms: float) -> None:
        place_ms = share.used_ms - share.credit_ms
        if place_ms > self._virtual_ms:
            self._virtual_ms = place_ms
        elif share.used_ms < self._virtual_ms:
            share.used_ms = self._virtual_ms
        self._seen_ms = self._share_start_ms = now_ms
        end_ms = now_ms + SHARE_MS
        self._share_end_ms = end_ms if end_ms < self._turn_end_ms else self._turn_end_ms
        self._served_count = 0

    def request_ends_share(self) -> bool:
        """Count a request that was served, or a piece of a response; return True if the share is over now."""
        self._served_count += 1
        self._seen_ms = now = self._now_ms()
        return now >= self._share_end_ms

    def end(self, share: Share, *, has_more: bool) -> None:
        """Count the time of the share; `has_more` is True if requests, or pieces of a response, are left."""
        spent = self._seen_ms - self._share_start_ms
        share.used_ms += spent
        share.pieces_ms += spent
        if self._served_count:
            share.estimate_ms = min(spent / self._served_count, 2 * share.estimate_ms + SHARE_MS)
        if not has_more and share.used_ms > self._virtual_ms + DEBT_MS_MAX:
            share.used_ms = self._virtual_ms + DEBT_MS_MAX

    # --- the queue

    def enqueue(self, client: Client) -> None:
        """Queue the connection for its turn; a second call has no effect."""
        if client.share.is_queued:
            return
        client.share.is_queued = True
        heapq.heappush(self._queue, self._place(client))
        if not self._is_turn:
            self._is_turn = True
            self._soon()

    def expect(self, share: Share, frame_bytes: int, *, has_records: bool) -> None:
        """Raise the estimate for a waiting request of so many bytes: the connection may have no other history."""
        bytes_per_ms = RECORD_BYTES_PER_MS if has_records else ELEMENT_BYTES_PER_MS
        share.estimate_ms = max(share.estimate_ms, min(frame_bytes / bytes_per_ms, ESTIMATE_MS_MAX))

    def _place(self, client: Client) -> tuple[float, int, Client]:
        share = client.share
        self._queued_count += 1
        place_ms = max(share.used_ms, self._virtual_ms) + share.estimate_ms - share.credit_ms
        return place_ms, self._queued_count, client

    def _soon(self) -> None:
        """Schedule the next turn after the next poll of the sockets."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Serve queued connections for TURN_MS; called once between two polls of the loop's sockets."""
        queue = self._queue
        if not queue:
            self._is_turn = False
            return
        now = self._now_ms()
        self._turn_end_ms = now + TURN_MS
        try:
            while queue and now < self._turn_end_ms:
                client = heapq.heappop(queue)[2]
                share = client.share
                share.is_queued = False
                self._start(share, now)
                try:
                    client.serve_share()
                finally:
                    now = self._now_ms()
        finally:
            for call in self.turn_ended:
                call()
            self._soon()

    # --- responses in pieces

    def acquire_slot(self, client: Client) -> bool:
        """Return True if the connection may continue its response in pieces: it has a slot, or needs none yet.

        Otherwise the connection waits, and is queued when it gets a slot.
        """
        share = client.share
        if share.has_slot or share.pieces_ms < FREE_MS:
            return True
        if self._slots_taken < SLOTS_MAX:
            self._take_slot(share)
            return True
        if not share.waits_for_slot:
            share.waits_for_slot = True
            heapq.heappush(self._waiting_for_slot, self._place(client))
        return False

    def _take_slot(self, share: Share) -> None:
        self._slots_taken += 1
        share.has_slot = True
        share.waits_for_slot = False

    def release_slot(self, share: Share) -> None:
        """Release the slot for a response in pieces, or stop waiting for one."""
        share.waits_for_slot = False
        if not share.has_slot:
            return
        share.has_slot = False
        self._slots_taken -= 1
        while self._waiting_for_slot and self._slots_taken < SLOTS_MAX:
            client = heapq.heappop(self._waiting_for_slot)[2]
            if client.share.waits_for_slot:
                self._take_slot(client.share)
                self.enqueue(client)
