"""The event loop's time, shared by connections: who has taken least of it is served next.

One client's requests are every other client's wait, however few bytes they have. So requests are served in turns: a
turn is what happens between two looks of the loop at its sockets, and serves for TURN_MS at most. A connection's share
of it is SHARE_MS; if its requests take longer, it stands in line, and the line is ordered by the time that each
connection has taken. This is start-time fair queueing (Goyal, Vin and Cheng, 1996) with time in place of bytes: a
connection that was idle gets no credit for it, one that floods waits behind those that do not, and what nobody else
wants is its own. Replication, the quorum and timers are the loop's other callbacks: they run between two turns.

While the loop has time for all, a request is served within the read that brought it, and two looks at the clock are all
that this costs it.

An answer that takes long is made in pieces: by a generator that yields wherever another connection may be served. One
that has taken FREE_MS needs a place to go on, of which there are PIECES_MAX: what is half made of many long answers
cannot fill the memory, and who asks little does not wait for those who ask much.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Final, Protocol

TURN_MS: Final = 2.0
SHARE_MS: Final = 1.0
FREE_MS: Final = 10.0
PIECES_MAX: Final = 8
DEBT_MS_MAX: Final = 1.0
"""Beyond the others' place in line, of a connection that asks for nothing more: its short request may have taken long
for no fault of its own, when the process was not on a processor, or garbage was collected."""
NODE_CREDIT_MS: Final = 10.0
"""Of brokers and controllers, on listeners that are theirs alone: replication, heartbeats and votes go before what
clients ask for, unless they have taken so much more of the loop's time."""
ELEMENT_BYTES_PER_MS: Final = 10_000
"""Of a request, about, whose bytes are elements: each of some ten bytes takes a microsecond or two."""
RECORD_BYTES_PER_MS: Final = 200_000
"""Of a Produce request, about: records are not looked at one by one."""
GUESS_MS_MAX: Final = 10.0
"""Of a request that waits. What takes longer is served in pieces, and each piece is counted when it was served."""


class Share:
    """What a connection has taken of the loop's time."""

    __slots__ = ("credit_ms", "guess_ms", "has_pieces", "is_in_line", "pieces_ms", "taken_ms", "waits_for_pieces")

    def __init__(self, *, is_of_node: bool = False) -> None:
        self.credit_ms = NODE_CREDIT_MS if is_of_node else 0.0
        """How far it stands before its place in line."""
        self.taken_ms = 0.0
        """Its virtual time: where the line stood when it was last served, and what it took then."""
        self.guess_ms = 0.0
        """What its last requests took each, and its next one may take: who asks little goes before who asks much. It
        grows step by step, as one request may take long by chance.
        """
        self.is_in_line = False
        self.pieces_ms = 0.0
        """What its answer in pieces has taken; set to 0 by who begins one."""
        self.has_pieces = False
        """Whether it has one of the places for answers in pieces."""
        self.waits_for_pieces = False


class Client(Protocol):
    """A connection."""

    share: Share

    def serve_share(self) -> None:
        """Serve requests until `served` says that the share is over, then `end` it, and stand in line again."""


class Turns:
    """Shares of one event loop."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._line: list[tuple[float, int, Client]] = []
        self._line_count = 0
        self._virtual_ms = 0.0
        """Virtual time: what the connection had taken that is, or was last, served."""
        self.turn_ended: list[Callable[[], None]] = []
        """Called after each turn of those in line, before the next one: answers leave then."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_turn = False
        self._turn_end_ms = 0.0
        self._share_start_ms = 0.0
        self._share_end_ms = 0.0
        self._seen_ms = 0.0
        """The clock when it was last looked at."""
        self._served_count = 0
        self._pieces_count = 0
        self._waits_for_pieces: list[tuple[float, int, Client]] = []

    # --- shares

    def begin(self, share: Share) -> bool:
        """Whether the connection is served now: its share begins, and `end` must follow. If not, it stands in line."""
        now = self._now_ms()
        if not self._is_turn:
            self._is_turn = True
            self._turn_end_ms = now + TURN_MS
            self._soon()
        elif self._line or now >= self._turn_end_ms:
            return False
        self._start(share, now)
        return True

    def _start(self, share: Share, now_ms: float) -> None:
        place_ms = share.taken_ms - share.credit_ms
        if place_ms > self._virtual_ms:
            self._virtual_ms = place_ms
        elif share.taken_ms < self._virtual_ms:
            share.taken_ms = self._virtual_ms
        self._seen_ms = self._share_start_ms = now_ms
        end_ms = now_ms + SHARE_MS
        self._share_end_ms = end_ms if end_ms < self._turn_end_ms else self._turn_end_ms
        self._served_count = 0

    def served(self) -> bool:
        """Count a request, or a piece of one; whether the share is over."""
        self._served_count += 1
        self._seen_ms = now = self._now_ms()
        return now >= self._share_end_ms

    def end(self, share: Share, *, has_more: bool) -> None:
        """Count what the share took; `has_more` says that the connection has requests that wait, or a piece."""
        spent = self._seen_ms - self._share_start_ms
        share.taken_ms += spent
        share.pieces_ms += spent
        if self._served_count:
            share.guess_ms = min(spent / self._served_count, 2 * share.guess_ms + SHARE_MS)
        if not has_more and share.taken_ms > self._virtual_ms + DEBT_MS_MAX:
            share.taken_ms = self._virtual_ms + DEBT_MS_MAX

    # --- the line

    def stand_in_line(self, client: Client) -> None:
        """Serve the connection when it is its turn; again is no harm."""
        if client.share.is_in_line:
            return
        client.share.is_in_line = True
        heapq.heappush(self._line, self._place(client))
        if not self._is_turn:
            self._is_turn = True
            self._soon()

    def expect(self, share: Share, frame_bytes: int, *, has_records: bool) -> None:
        """A request of so many bytes waits: nothing else may be known of the connection yet."""
        bytes_per_ms = RECORD_BYTES_PER_MS if has_records else ELEMENT_BYTES_PER_MS
        share.guess_ms = max(share.guess_ms, min(frame_bytes / bytes_per_ms, GUESS_MS_MAX))

    def _place(self, client: Client) -> tuple[float, int, Client]:
        share = client.share
        self._line_count += 1
        place_ms = max(share.taken_ms, self._virtual_ms) + share.guess_ms - share.credit_ms
        return place_ms, self._line_count, client

    def _soon(self) -> None:
        """Have the next turn when the loop has looked at its sockets."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Serve those in line for a while; called once between two looks of the loop at its sockets."""
        line = self._line
        if not line:
            self._is_turn = False
            return
        now = self._now_ms()
        self._turn_end_ms = now + TURN_MS
        try:
            while line and now < self._turn_end_ms:
                client = heapq.heappop(line)[2]
                share = client.share
                share.is_in_line = False
                self._start(share, now)
                try:
                    client.serve_share()
                finally:
                    now = self._now_ms()
        finally:
            for call in self.turn_ended:
                call()
            self._soon()

    # --- answers in pieces

    def begin_pieces(self, client: Client) -> bool:
        """Whether the connection may go on with its answer in pieces; else it stands in line when it gets a place."""
        share = client.share
        if share.has_pieces or share.pieces_ms < FREE_MS:
            return True
        if self._pieces_count < PIECES_MAX:
            self._give_pieces(share)
            return True
        if not share.waits_for_pieces:
            share.waits_for_pieces = True
            heapq.heappush(self._waits_for_pieces, self._place(client))
        return False

    def _give_pieces(self, share: Share) -> None:
        self._pieces_count += 1
        share.has_pieces = True
        share.waits_for_pieces = False

    def end_pieces(self, share: Share) -> None:
        """Give the place back, or wait for it no longer."""
        share.waits_for_pieces = False
        if not share.has_pieces:
            return
        share.has_pieces = False
        self._pieces_count -= 1
        while self._waits_for_pieces and self._pieces_count < PIECES_MAX:
            client = heapq.heappop(self._waits_for_pieces)[2]
            if client.share.waits_for_pieces:
                self._give_pieces(client.share)
                self.stand_in_line(client)
