"""Second client: one process with a group member and a producer, which measures its latencies.

    python -m compat_tests.starvation.victim BOOTSTRAP GROUP TOPIC

It sends a Heartbeat and a Produce of one record with acks=all every PERIOD_SECONDS, each over its own connection.
Both are due at fixed times, and a latency counts from the time when a request was due. Requests that were due while
an earlier one waited count as well. A long wait is then not one sample among many short ones (coordinated omission).

It is a separate process, so that no other Python thread holds its interpreter lock. Its priority is higher than the
broker's, which it hardly delays: it uses 2 % of a core. The attacker's priority is lower than the broker's. Otherwise
three processes would compete for two cores, and the latency would be that of the scheduler.

Commands come as lines on standard input, and each gets a line of JSON as its answer:

        calm    wait until both latencies are short again; answer if that was in time, and after how long
        begin   discard all samples
        end     return the samples, in milliseconds, and the errors since begin
"""

import contextlib
import json
import os
import select
import sys
import time

from compat_tests.harness.waiting import eventually
from compat_tests.raw.group_member import GroupMember
from compat_tests.raw.peer import batch_of
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw_client import decoded

PERIOD_SECONDS = 0.01
CALM_MS = 25.0
CALM_COUNT = 30
CALM_SECONDS = 10.0
SESSION_MS = 30_000
INSTANCE = "victim"
"""A static member gets its place back at once when it reconnects."""
CONNECT_SECONDS = 20.0
PRIORITY = -10
HEARTBEAT_VERSION, PRODUCE_VERSION = 4, 11


class Calls:
    """Requests of one kind on one connection: when they are due, and their latencies."""

    def __init__(self, bootstrap, group, topic, offset_seconds):
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.due = time.monotonic() + offset_seconds
        self.is_waiting = False
        self.received = bytearray()
        self.samples_ms, self.errors = [], []
        self.latest_ms = []
        """Latencies since the last command."""
        self.peer = None
        self.connect()

    def connect(self):
        """Connect, encode the request, and send it for the first time when it is due."""
        if self.peer is not None:
            self.peer.socket.close()
        self.peer = GroupMember(self.bootstrap, self.group, instance=INSTANCE, session_ms=SESSION_MS)
        self.request, self.version = self.make()
        self.frame = self.peer.frame(self.request, self.version)
        self.peer.socket.setblocking(False)
        self.is_waiting = False
        self.received.clear()
        return True

    def make(self):
        raise NotImplementedError

    def error_of(self, answer):
        raise NotImplementedError

    def send_if_due(self):
        if not self.is_waiting and time.monotonic() >= self.due:
            self.is_waiting = True
            self.peer.socket.send(self.frame)

    def read(self):
        self.received += self.peer.socket.recv(4096) or self.raise_closed()
        if len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[:4], "big"):
            return
        now = time.monotonic()
        answer = bytes(self.received[4:])
        self.received.clear()
        self.is_waiting = False
        self.count(now)
        if error := self.error_of(decoded(answer, self.request, self.version)):
            raise ConnectionError(f"error {error}")

    @staticmethod
    def raise_closed():
        raise ConnectionError("the broker closed the connection")

    def count(self, now):
        """Count the answered request and those that became due meanwhile."""
        while self.due <= now:
            self.samples_ms.append((now - self.due) * 1000)
            self.latest_ms.append((now - self.due) * 1000)
            self.due += PERIOD_SECONDS

    def fail(self, error):
        """Record an error and reconnect, so that the next measurement has a victim."""
        self.errors.append(f"{type(self).__name__}: {error}")
        self.count(time.monotonic())
        eventually(self.connect, "the victim connects again", CONNECT_SECONDS)

    @property
    def is_calm(self):
        last = self.latest_ms[-CALM_COUNT:]
        return len(last) == CALM_COUNT and max(last) < CALM_MS


class Heartbeats(Calls):
    def make(self):
        joined = self.peer.join()
        synced = self.peer.sync({self.peer.member_id: b""})
        if joined.error_code or synced.error_code:
            raise ConnectionError(f"errors {joined.error_code}, {synced.error_code} in joining")
        return (
            HeartbeatRequest(
                group_id=self.group,
                generation_id=self.peer.generation,
                member_id=self.peer.member_id,
                group_instance_id=INSTANCE,
            ),
            HEARTBEAT_VERSION,
        )

    def error_of(self, answer):
        return answer.error_code


class Produces(Calls):
    def make(self):
        data = [PartitionProduceData(index=0, records=bytes(batch_of(1)))]
        topics = [TopicProduceData(name=self.topic, partition_data=data)]
        return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), PRODUCE_VERSION

    def error_of(self, answer):
        return answer.responses[0].partition_responses[0].error_code


class Victim:
    def __init__(self, bootstrap, group, topic):
        self.calls = [Heartbeats(bootstrap, group, topic, 0.0), Produces(bootstrap, group, topic, PERIOD_SECONDS / 2)]
        self.calm_since = None
        """Time of the unanswered `calm` command; None if there is none."""

    def run(self):
        print(json.dumps({"ready": True}), flush=True)
        while True:
            for each in self.calls:
                self.guarded(each, each.send_if_due)
            now = time.monotonic()
            self.look_whether_calm(now)
            sockets = {each.peer.socket: each for each in self.calls}
            idle = [each.due for each in self.calls if not each.is_waiting]
            wait = max(0.0, min(idle) - now) if idle else 1.0
            readable, _, _ = select.select([sys.stdin, *sockets], [], [], wait)
            for each in readable:
                if each is not sys.stdin:
                    self.guarded(sockets[each], sockets[each].read)
            if sys.stdin in readable and not self.command(sys.stdin.readline().strip()):
                return

    @staticmethod
    def guarded(calls, action):
        try:
            action()
        except OSError as error:
            calls.fail(error)

    def command(self, word):
        """Execute a command; return True if more commands can follow."""
        if word == "calm":
            self.calm_since = time.monotonic()
            for each in self.calls:
                each.latest_ms.clear()
        elif word == "begin":
            for each in self.calls:
                each.samples_ms.clear()
                each.errors.clear()
            print(json.dumps({"begun": True}), flush=True)
        elif word == "end":
            print(json.dumps(self.figures()), flush=True)
        return word != ""

    def figures(self):
        """Return the samples; a request without a response counts with its waiting time so far."""
        now = time.monotonic()
        for each in self.calls:
            if each.is_waiting:
                each.count(now)
        heartbeats, produces = self.calls
        errors = [*heartbeats.errors, *produces.errors]
        return {"heartbeat_ms": heartbeats.samples_ms, "produce_ms": produces.samples_ms, "errors": errors}

    def look_whether_calm(self, now):
        if self.calm_since is None:
            return
        is_calm = all(each.is_calm for each in self.calls)
        seconds = now - self.calm_since
        if is_calm or seconds > CALM_SECONDS:
            self.calm_since = None
            print(json.dumps({"calm": is_calm, "seconds": round(seconds, 1)}), flush=True)


def main():
    with contextlib.suppress(PermissionError):
        os.nice(PRIORITY)
    Victim(*sys.argv[1:]).run()


if __name__ == "__main__":
    main()
