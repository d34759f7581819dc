"""Group member of kafka-python in its own thread."""

from compat_tests.harness.members import Member, running, wait_for_shares
from compat_tests.kafka_python.client import consumer

__all__ = ["member", "wait_for_shares"]


class KafkaPythonMember(Member):
    def __init__(self):
        super().__init__()
        self.generation = None
        self.records = []

    def poll_until_stopped(self, bootstrap, topic, settings):
        with consumer(bootstrap, topic, **settings) as client:
            while not self.stopping.is_set():
                for batch in client.poll(timeout_ms=500).values():
                    self.records.extend(batch)
                self.assignment = frozenset(client.assignment())
                self.generation = client.group_metadata().generation_id


def member(bootstrap, topic, **settings):
    return running(KafkaPythonMember(), bootstrap, topic, settings)
