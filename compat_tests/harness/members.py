"""Group members, each in its own thread, as in applications; a subclass per client implements the calls."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from compat_tests.harness.waiting import eventually

QUICK = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000}
"""Settings of classic members; for members of the consumer protocol the broker sets both."""


class Member:
    """Member that polls until it is stopped. Only its own thread calls the client; other threads read its fields."""

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
    """Run the member in its thread; check at the end of the block that the thread has ended without an error."""
    quick = {} if settings.get("group_protocol") == "consumer" else QUICK
    thread = threading.Thread(target=joined.run, args=(bootstrap, topic, quick | settings), daemon=True)
    thread.start()
    try:
        yield joined
    finally:
        joined.stopping.set()
        thread.join(30)
    assert joined.problem is None
    assert not thread.is_alive()


def wait_for_shares(members, expected, seconds=40):
    """Wait until the members own all partitions without overlap, in these numbers."""

    def shared():
        assigned = [each.assignment for each in members]
        return [len(each) for each in assigned] == expected and len(frozenset().union(*assigned)) == sum(expected)

    eventually(shared, f"partitions shared as {expected}", seconds)
