"""Group member of confluent-kafka in its own thread."""

from compat_tests.confluent_kafka_client.client import consumer
from compat_tests.harness.members import Member, running, wait_for_shares

__all__ = ["member", "wait_for_shares"]


class ConfluentMember(Member):
    def __init__(self):
        super().__init__()
        self.revoked = []
        self.member_id = None
        self.topics = frozenset()

    def poll_until_stopped(self, bootstrap, topic, settings):
        with consumer(bootstrap, **settings) as client:
            client.subscribe([topic], on_revoke=lambda _, gone: self.revoked.append([each.partition for each in gone]))
            while not self.stopping.is_set():
                client.poll(0.05)
                assigned = client.assignment()
                self.topics = frozenset(each.topic for each in assigned)
                self.assignment = frozenset(each.partition for each in assigned)
                self.member_id = client.memberid()


def member(bootstrap, topic, **settings):
    return running(ConfluentMember(), bootstrap, topic, settings)
