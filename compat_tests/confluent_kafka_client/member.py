"""A group member in a thread of its own, as an application runs one."""

import threading
from contextlib import contextmanager

from compat_tests.confluent_kafka_client.client import consumer
from compat_tests.harness.waiting import eventually

QUICK = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000}


class Member:
    """Polls until it is told to stop. Only its thread calls the client; others read what it publishes."""

    def __init__(self):
        self.assignment = frozenset()
        self.revoked = []
        self.member_id = None
        self.stopping = threading.Event()
        self.problem = None

    def run(self, bootstrap, topic, settings):
        try:
            with consumer(bootstrap, **QUICK | settings) as client:
                client.subscribe(
                    [topic], on_revoke=lambda _, gone: self.revoked.append([each.partition for each in gone])
                )
                while not self.stopping.is_set():
                    client.poll(0.05)
                    self.assignment = frozenset(each.partition for each in client.assignment())
                    self.member_id = client.memberid()
        except Exception as error:
            self.problem = error


@contextmanager
def member(bootstrap, topic, **settings):
    joined = Member()
    thread = threading.Thread(target=joined.run, args=(bootstrap, topic, settings), daemon=True)
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
