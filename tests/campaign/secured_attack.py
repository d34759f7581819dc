"""Attack on a listener with TLS or SASL: hostile bytes beneath TLS, before a login, during one and after it.

Bytes beneath TLS are a changed first message, or a changed record after the handshake. Before a login comes a hostile
frame. Within a login comes SaslHandshake with a changed token, or with a hostile frame. An intruder sends requests
that would change something: at once, after SaslHandshake, or after a wrong token. After a login comes a hostile frame.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from kwire.protocol.api_keys import ApiKey
from kwire.protocol.requesting import frame_request
from tests.campaign.secured_listener import RIGHT_TOKEN, SecuredListener, handshake_frame, token_frame
from tests.hostile.attack import ANSWER_SECONDS, Attack, Connection
from tests.hostile.frames import Frames, Shot
from tests.support.requests import batch, create_request, produce_request

LOCKED: Final = "locked"
"""Topic that only intruders write to: it stays empty."""
STOLEN: Final = "stolen-"
"""Beginning of the names of topics that only intruders create."""
_LOGIN_APIS: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_HEADER_BYTES: Final = 6


def phases_of(listener: SecuredListener) -> tuple[str, ...]:
    """Return the phases of the attack, each as often as its share."""
    beneath = ("beneath",) if listener.uses_tls else ()
    login = ("before", "tokens", "tokens", "intruder") if listener.uses_sasl else ()
    return (*beneath, *login, "after", "after")


class SecuredShots:
    """Shots by number; the kind of each begins with its phase."""

    def __init__(self, listener: SecuredListener, seed: int) -> None:
        self._frames = Frames(seed)
        self._seed = seed
        self._phases = phases_of(listener)

    def shot(self, number: int) -> Shot:
        random_source = random.Random(f"secured {self._seed}:{number}")
        phase = random_source.choice(self._phases)
        shot = self._frames.shot(number)
        if phase == "tokens" and random_source.random() < 0.7:
            shot = Shot("token", changed(token_frame(RIGHT_TOKEN), random_source))
        elif phase == "intruder":
            shot = _intruder(random_source)
        return Shot(f"{phase}: {shot.kind}", shot.data, shot.frames, shot.holds)


def changed(data: bytes, random_source: random.Random) -> bytes:
    """Return bytes with a few changes: flipped bits, a cut, or inserted bytes."""
    found = bytearray(data or b"\0")
    for _ in range(random_source.randint(1, 4)):
        at = random_source.randrange(len(found))
        kind = random_source.randrange(4)
        if kind == 0:
            del found[at + 1 :]
        elif kind == 1:
            found[at:at] = random_source.randbytes(random_source.choice((1, 4, 100)))
        else:
            found[at] ^= 1 << random_source.randrange(8)
    return bytes(found)


def _intruder(random_source: random.Random) -> Shot:
    """Return valid requests of a client that is not logged in."""
    written = frame_request(produce_request(LOCKED, batch(b"stolen"), acks=1), 9, 3, "intruder")
    created = frame_request(create_request(f"{STOLEN}{random_source.getrandbits(40)}"), 7, 4, "intruder")
    before = random_source.choice((b"", handshake_frame(), handshake_frame() + token_frame(b"\0alice\0wrong")))
    return Shot("valid requests", before + written + created, frames=2)


class SecuredAttack(Attack):
    """Attack from many addresses, so that limits for one address do not end it."""

    def __init__(self, listener: SecuredListener, shots: Iterator[Shot], seed: int) -> None:
        super().__init__(f"127.0.0.1:{listener.port}", shots, opener=self._open_for)
        self._listener = listener
        self._random_source = random.Random(f"addresses {seed}")
        self._tls = listener.context() if listener.uses_tls else None
        self.problems: list[str] = []

    async def _fire(self, shot: Shot, connection: Connection | None) -> Connection | None:
        """Send a shot; only connections that are logged in are used again."""
        phase = shot.kind.partition(":")[0]
        if connection is not None and phase != "after":
            connection[1].transport.abort()
            connection = None
        with suppress(ConnectionError, ssl.SSLError, TimeoutError, EOFError):  # the broker may reject each step
            if phase == "beneath":
                await self._send_beneath(shot)
                return None
            connection = await super()._fire(shot, connection)
            if phase == "before" and connection is not None and not _may_be_answered(shot.data):
                self.problems.append(f"a client without a login got an answer: {shot.kind} {shot.data[:60].hex()}")
            if phase == "after":
                return connection
        if connection is not None:
            connection[1].transport.abort()
        return None

    async def _open_for(self, shot: Shot) -> Connection:
        """Open a connection in the state that the shot needs."""
        connection = await self._listener.connect(self._source(), self._tls)
        phase = shot.kind.partition(":")[0]
        if not self._listener.uses_sasl or phase in ("before", "intruder"):
            return connection
        await _ask(connection, handshake_frame())
        if phase == "after":
            await _ask(connection, token_frame(RIGHT_TOKEN))
        return connection

    def _source(self) -> str:
        a, b, c = (self._random_source.randint(1, 250) for _ in range(3))
        return f"127.{a}.{b}.{c}"

    async def _send_beneath(self, shot: Shot) -> None:
        """Send changed bytes of TLS: in place of the first message, or in a record after the handshake."""
        assert self._tls is not None
        connection = await self._listener.connect(self._source(), None)
        reader, writer = connection
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self._tls.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        self.frames += shot.frames
        try:
            with suppress(ssl.SSLWantReadError):
                session.do_handshake()
            if self._random_source.random() < 0.5:
                writer.write(changed(outgoing.read(), self._random_source))
            else:
                await _shake_hands(session, incoming, outgoing, connection)
                session.write(shot.data[:16384])
                writer.write(changed(outgoing.read(), self._random_source))
            self.outcomes[f"beneath, {await self._outcome_of_tls(reader)}"] += 1
        finally:
            writer.transport.abort()

    async def _outcome_of_tls(self, reader: asyncio.StreamReader) -> str:
        """Return what follows bytes that are no TLS: an alert, a close or silence."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return "alert" if await reader.read(1 << 16) else "closed"
        except TimeoutError:
            return "silent"


async def _shake_hands(
    session: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, connection: Connection
) -> None:
    reader, writer = connection
    while True:
        writer.write(outgoing.read())
        received = await reader.read(1 << 16)
        if not received:
            raise ConnectionResetError("closed during the handshake")
        incoming.write(received)
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            continue
        writer.write(outgoing.read())
        return


async def _ask(connection: Connection, frame: bytes) -> bytes:
    """Send a frame and return the response."""
    reader, writer = connection
    writer.write(frame)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def _may_be_answered(data: bytes) -> bool:
    """Return True if the first frame is one that may come before a login."""
    return len(data) < _HEADER_BYTES or struct.unpack_from(">h", data, 4)[0] in _LOGIN_APIS
