"""Case: attacker and victim at the same time, with the victim's latencies and the broker's state."""

import json
import math
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from compat_tests.harness.paths import ROOT
from compat_tests.harness.waiting import eventually
from compat_tests.raw.peer import Peer
from compat_tests.starvation.attacks import frames_of, repeated
from compat_tests.starvation.cpu import seconds_until_idle
from compat_tests.starvation.scene import SECONDS, VICTIM_TOPIC, led
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest

ATTACK_SECONDS = 1.5
RECOVERY_SECONDS = 10.0
ANSWER_SECONDS = 15.0
"""Time limit for the case's own requests; a broker that does not answer them in time counts as ended."""
ATTACKER = Path(__file__).parent / "attacker.py"
NO_LATENCY = {"count": 0, "p50": math.inf, "p99": math.inf, "max": math.inf}
NOT_MEASURED = {
    "sent_bytes": 0,
    "answers": 0,
    "answer_bytes": 0,
    "closed": 0,
    "heartbeat_ms": NO_LATENCY,
    "produce_ms": NO_LATENCY,
    "recovery_seconds": None,
    "leader_changes": [],
    "fenced": [],
}
HELD, LOGGER = "The event loop was held for ", " (kwire.loop_monitor)"


class EndedError(Exception):
    """The broker or the victim has ended, or does not respond any more."""


class Victim:
    """Process of the victim, which executes commands."""

    def __init__(self, scene):
        self.scene = scene
        self.process = None

    def start(self):
        arguments = [self.scene.bootstrap, self.scene.victim_group, VICTIM_TOPIC]
        command = [sys.executable, "-m", "compat_tests.starvation.victim", *arguments]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.answer()["ready"]

    def ask(self, word):
        """Send a command and return its answer."""
        with suppress(BrokenPipeError):
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
        return self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise EndedError("the victim could not connect again")
        return json.loads(line)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def attack(bootstrap, file, connections, begun):
    """Attack with the requests in a file, call `begun` when the first are sent, and return the figures."""
    host, port = bootstrap.split(":")
    command = [sys.executable, str(ATTACKER), host, port, str(file), str(connections), str(ATTACK_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["begins"]
        begun()
        return json.loads(process.stdout.readline())


class Cases:
    """Runner of cases against one broker, or against one broker of several."""

    def __init__(self, scene, directory, broker, restart):
        """Create the runner. `restart` kills the broker and starts it again. Requests are written to the directory."""
        self.scene, self.file = scene, directory / "requests"
        self.broker, self.restart = broker, restart
        self.victim = Victim(scene)
        self.made = None
        """Attack whose requests are in the file."""
        self.request_bytes = 0

    def __enter__(self):
        self.victim.start()
        self.await_calm()
        return self

    def __exit__(self, *_):
        self.victim.stop()

    def run(self, made, connections):
        """Attack once and return the figures. Restart a broker that does not recover, for the next case."""
        began = time.monotonic()
        self.make(made)
        logged = len(self.broker.output())
        try:
            figures = self.measure(connections)
        except (EndedError, OSError) as error:
            figures = {**NOT_MEASURED, "errors": [str(error)]}
        held = longest_hold(self.broker.output()[logged:])
        if figures["recovery_seconds"] is None:
            self.begin_anew()
        return {
            "attack": made.name,
            "connections": connections,
            "request_bytes": self.request_bytes,
            **figures,
            "held": held,
            "seconds": round(time.monotonic() - began, 1),
        }

    def measure(self, connections):
        leaders = self.leaders()
        sent = attack(self.scene.bootstrap, self.file, connections, lambda: self.victim.ask("begin"))
        if self.broker.process.poll() is not None:
            raise EndedError(f"the broker ended with status {self.broker.process.returncode}")
        suffered = self.victim.ask("end")
        return {
            **sent,
            "heartbeat_ms": percentiles(suffered["heartbeat_ms"]),
            "produce_ms": percentiles(suffered["produce_ms"]),
            "errors": suffered["errors"],
            "recovery_seconds": self.recovery_seconds(),
            "leader_changes": changes(leaders, self.leaders()),
            "fenced": self.fenced(),
        }

    def recovery_seconds(self):
        """Return the seconds until the broker is idle and the victim's latencies are short; None after a time limit."""
        seconds = seconds_until_idle(self.broker.process.pid, RECOVERY_SECONDS)
        recovered = self.victim.ask("calm")
        return None if seconds is None or not recovered["calm"] else round(seconds + recovered["seconds"], 1)

    def begin_anew(self):
        """Restart a broker for the next case if it has ended or is still busy with an attacker that has left."""
        self.victim.stop()
        self.restart()
        self.victim.start()
        self.await_calm()

    def await_calm(self):
        eventually(lambda: self.victim.ask("calm")["calm"], "the victim is served quickly", SECONDS)

    def make(self, made):
        if self.made != made.name:
            frames = frames_of(made, self.scene)
            self.file.write_bytes(repeated(frames))
            self.made, self.request_bytes = made.name, max(map(len, frames))

    def leaders(self):
        with Peer(self.scene.bootstrap) as peer:
            peer.socket.settimeout(ANSWER_SECONDS)
            return led(peer)

    def fenced(self):
        """Return the brokers that are fenced now; a broker that was fenced before has caused new leader epochs."""
        with Peer(self.scene.bootstrap) as peer:
            peer.socket.settimeout(ANSWER_SECONDS)
            brokers = peer.ask(DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
            return [each.broker_id for each in brokers if each.is_fenced]


def changes(before, after):
    """Return the partitions with another leader or leader epoch; created or deleted topics do not count."""
    there = {topic for topic, _ in after}
    return [
        f"{topic}-{index}: {leader} to {after.get((topic, index))}"
        for (topic, index), leader in before.items()
        if topic in there and after.get((topic, index)) != leader
    ]


def percentiles(samples):
    """Return median, 99th percentile and maximum, in milliseconds."""
    ordered = sorted(samples)
    return {
        "count": len(ordered),
        "p50": round(statistics.median(ordered), 1),
        "p99": round(ordered[len(ordered) * 99 // 100], 1),
        "max": round(ordered[-1], 1),
    }


def longest_hold(text):
    """Return the longest delay of kwire's event loop in its log, with the functions that caused it."""
    holds = [line.split(HELD, 1)[1].removesuffix(LOGGER) for line in text.splitlines() if HELD in line]
    return max(holds, key=lambda hold: float(hold.split(" ", 1)[0]), default="")
