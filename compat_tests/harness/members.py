"""Group members in threads of their own, as applications run them; each client's member says what it does there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from compat_tests.harness.waiting import eventually

QUICK = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000}


class Member:
    """Polls until it is told to stop. Only its thread calls the client; others read what it publishes."""

    def __init__(self):
        self.assignment = frozenset()
        self.stopping = threading.Event()
        self.problem = None

    def poll_until_stopped(self, bootstrap, topic, settings):
        raise NotImplementedError

    def run(self, bootstrap, topic, settings):
        try:
            self.poll_until_stopped(bootstrap, topic, settings)
        except Exception as error:
            self.problem = error


@contextmanager
def running(joined: Member, bootstrap, topic, settings) -> Iterator[Member]:
    """The member in its thread, which has ended without a problem when the block is left."""
    thread = threading.Thread(target=joined.run, args=(bootstrap, topic, QUICK | settings), daemon=True)
    thread.start()
    try:
        yield joined
    finally:
        joined.stopping.set()
        thread.join(30)
    assert joined.problem is None
    assert not thread.is_alive()


def wait_for_shares(members, expected, seconds=40):
    """Wait until the members share all partitions without overlap, in these numbers."""

    def shared():
        assigned = [each.assignment for each in members]
        return [len(each) for each in assigned] == expected and len(frozenset().union(*assigned)) == sum(expected)

    eventually(shared, f"partitions shared as {expected}", seconds)
