"""Aggressive client: one process that writes encoded requests to its connections as fast as they accept them.

    python attacker.py HOST PORT FILE CONNECTIONS SECONDS

FILE holds complete requests, one after the other; each connection sends the file repeatedly and discards the responses.
The process builds, encodes and decodes nothing, so that on a machine with two cores the broker has most of one core.
It imports only the standard library, so that it starts at once. It prints two lines of JSON: one when it sends its
first bytes, and its figures at the end. If the broker closes a connection, it opens another; if it cannot,
it ends.
"""

import contextlib
import json
import os
import select
import socket
import sys
import time
from pathlib import Path

RECEIVE_BYTES = 256 * 1024
NICER = 5
"""Priority below the broker's, which must keep up with the attacker."""
REQUEST_SECONDS = 10.0
"""Time limit to open a connection; after it the attack ends with an error."""


class Connection:
    """Connection with its unsent part of the file and its position in the responses."""

    def __init__(self, address, content):
        self.address, self.content = address, content
        self.position = 0
        self.sent_bytes = self.answers = self.answer_bytes = self.closed = 0
        self.socket = socket.create_connection(self.address, timeout=REQUEST_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.left = 0
        """Remaining bytes of the response that is being received."""
        self.size = bytearray()
        """Received bytes of the next response's size."""

    def write(self):
        """Send as much as the socket accepts."""
        with contextlib.suppress(BlockingIOError):
            sent = self.socket.send(self.content[self.position :])
            self.sent_bytes += sent
            self.position += sent
            if self.position == len(self.content):
                self.position = 0

    def read(self, scratch):
        """Count responses. Raises ConnectionError if the broker has closed the connection."""
        try:
            count = self.socket.recv_into(scratch)
        except BlockingIOError:
            return
        if not count:
            raise ConnectionError("closed by the broker")
        self.answer_bytes += count
        self.count(scratch, count)

    def count(self, scratch, count):
        at = 0
        while at < count:
            if self.left:
                step = min(self.left, count - at)
                at += step
                self.left -= step
                self.answers += self.left == 0
                continue
            step = min(4 - len(self.size), count - at)
            self.size += scratch[at : at + step]
            at += step
            if len(self.size) == 4:
                self.left = int.from_bytes(self.size, "big")
                self.size.clear()


def attack(address, content, connections, seconds):
    """Attack for `seconds` and return the figures."""
    with select.epoll() as poll:
        return attack_with(poll, address, content, connections, seconds)


def attack_with(poll, address, content, connections, seconds):
    opened, ended = {}, []

    def add(connection):
        opened[connection.socket.fileno()] = connection
        poll.register(connection.socket, select.EPOLLIN | select.EPOLLOUT)

    for _ in range(connections):
        add(Connection(address, content))
    scratch = memoryview(bytearray(RECEIVE_BYTES))
    end = time.monotonic() + seconds
    is_under_way = False
    while time.monotonic() < end:
        for number, events in poll.poll(0.05):
            connection = opened[number]
            try:
                if events & ~select.EPOLLOUT:
                    connection.read(scratch)
                if events & select.EPOLLOUT:
                    connection.write()
            except OSError:
                connection.closed += 1
                poll.unregister(number)
                connection.socket.close()
                del opened[number]
                ended.append(connection)
                try:
                    add(Connection(address, content))
                except OSError:
                    return figures([*opened.values(), *ended])
        if not is_under_way:
            is_under_way = True
            print(json.dumps({"begins": True}), flush=True)
    return figures([*opened.values(), *ended])


def figures(connections):
    """Return the sums over all connections, and close them."""
    for each in connections:
        each.socket.close()
    names = ("sent_bytes", "answers", "answer_bytes", "closed")
    return {name: sum(getattr(each, name) for each in connections) for name in names}


def main():
    os.nice(NICER)
    host, port, path, connections, seconds = sys.argv[1:]
    content = memoryview(Path(path).read_bytes())
    print(json.dumps(attack((host, int(port)), content, int(connections), float(seconds))), flush=True)


if __name__ == "__main__":
    main()
