"""One case: the attacker and the victim at once, and what it was like for the victim and for the broker."""

import json
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from compat_tests.harness.paths import ROOT
from compat_tests.raw.peer import Peer
from compat_tests.starvation.attacks import frames_of, repeated
from compat_tests.starvation.scene import SECONDS, VICTIM_TOPIC, led
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest

ATTACK_SECONDS = 2.0
ATTACKER = Path(__file__).parent / "attacker.py"
HELD = "The event loop was held for "


@contextmanager
def victim(scene):
    """The victim's process, as a function that sends a command and returns its answer."""
    arguments = [scene.bootstrap, scene.victim_group, VICTIM_TOPIC]
    command = [sys.executable, "-m", "compat_tests.starvation.victim", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(word):
            process.stdin.write(word + "\n")
            process.stdin.flush()
            return answer()

        def answer():
            line = process.stdout.readline()
            assert line, f"the victim ended with {process.poll()}"
            return json.loads(line)

        try:
            assert answer()["ready"]
            yield ask
        finally:
            process.kill()


def attack(bootstrap, file, connections, begun):
    """Attack with the requests in a file, call `begun` when the first ones are sent, and return the figures."""
    host, port = bootstrap.split(":")
    command = [sys.executable, str(ATTACKER), host, port, str(file), str(connections), str(ATTACK_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["begins"]
        begun()
        return json.loads(process.stdout.readline())


class Cases:
    """Runs cases against one broker, or against one of several."""

    def __init__(self, scene, ask, output, directory):
        """`output` returns what the attacked broker has logged; requests are written into the directory."""
        self.scene, self.ask, self.output, self.file = scene, ask, output, directory / "requests"
        self.made = None
        """The attack whose requests are in the file."""
        self.request_bytes = 0

    def run(self, made, connections):
        """Attack once, wait until the victim is served as if there had been no attack, and return the figures."""
        self.make(made)
        logged = len(self.output())
        leaders = self.leaders()
        sent = attack(self.scene.bootstrap, self.file, connections, lambda: self.ask("begin"))
        suffered = self.ask("end")
        recovered = self.ask("calm")
        return {
            "attack": made.name,
            "connections": connections,
            "request_bytes": self.request_bytes,
            **sent,
            "heartbeat_ms": percentiles(suffered["heartbeat_ms"]),
            "produce_ms": percentiles(suffered["produce_ms"]),
            "errors": suffered["errors"],
            "recovery_seconds": recovered["seconds"] if recovered["calm"] else None,
            "leader_changes": changes(leaders, self.leaders()),
            "fenced": self.fenced(),
            "held": longest_hold(self.output()[logged:]),
        }

    def make(self, made):
        if self.made != made.name:
            frames = frames_of(made, self.scene)
            self.file.write_bytes(repeated(frames))
            self.made, self.request_bytes = made.name, max(map(len, frames))

    def leaders(self):
        with Peer(self.scene.bootstrap) as peer:
            peer.socket.settimeout(SECONDS)
            return led(peer)

    def fenced(self):
        """Brokers that are fenced now; one that was and is no longer has left new leader epochs."""
        with Peer(self.scene.bootstrap) as peer:
            peer.socket.settimeout(SECONDS)
            brokers = peer.ask(DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
            return [each.broker_id for each in brokers if each.is_fenced]


def changes(before, after):
    """Partitions that another leader, or the same one in a new epoch, leads; topics that came or went do not count."""
    there = {topic for topic, _ in after}
    return [
        f"{topic}-{index}: {leader} to {after.get((topic, index))}"
        for (topic, index), leader in before.items()
        if topic in there and after.get((topic, index)) != leader
    ]


def percentiles(samples):
    """Median, 99th percentile and maximum, in milliseconds."""
    ordered = sorted(samples)
    return {
        "count": len(ordered),
        "p50": round(statistics.median(ordered), 1),
        "p99": round(ordered[len(ordered) * 99 // 100], 1),
        "max": round(ordered[-1], 1),
    }


def longest_hold(text):
    """The longest hold of kwire's event loop that it has logged, with the functions that held it."""
    holds = [line.split(HELD, 1)[1] for line in text.splitlines() if HELD in line]
    return max(holds, key=lambda hold: float(hold.split(" ", 1)[0]), default="")
