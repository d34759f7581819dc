"""Cost of security: records over TLS, handshakes, logins, idle connections, and access control with many entries."""

import re
import socket
import ssl
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)

from benchmarks.brokers import COMPARED, Run
from benchmarks.rows import perf, small
from benchmarks.rows.engine import Figures
from benchmarks.secured import PASSWORD, USER, Secured, secured
from benchmarks.topics import admin, delete_topic, make_topic
from compat_tests.harness.paths import ROOT
from compat_tests.harness.ports import HOST

REPETITIONS = 3
SIZES = {100: 500_000, 1000: 120_000}
"""Bytes of a record to the number of records."""
CLIENTS = 3
"""Clients that shake hands or log in at a time."""
WARM_UP_SECONDS, MEASURED_SECONDS = 3, 4
IDLE = 2_000
ENTRIES = 10_000
ENTRIES_AT_ONCE = 500
TURNS, TURN_SECONDS = 5, 2
"""Measurements of the broker with entries, each between two of the one without an authorizer."""


def tls() -> Figures:
    """Measure Kafka's own perf tools over TLS, handshakes and logins of new connections, and idle connections."""
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(REPETITIONS):
        for name in COMPARED if number % 2 else reversed(COMPARED):
            broker = secured(name)
            with broker.run:
                for figure, value in _measured(broker).items():
                    figures[figure][name].append(value)
    return figures


def _measured(broker: Secured) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    broker.add_user()
    for size, records in SIZES.items():
        topic = f"tls-{size}"
        make_topic(broker.run, topic)
        address, properties = broker.bootstrap("SSL"), broker.tls_properties
        perf.produce(broker.run, topic, size, records // 2, properties, address)
        figures[f"produce {size} B over TLS, records/s"] = perf.produce(
            broker.run, topic, size, records, properties, address
        )
        perf.consume(broker.run, topic, records, properties, address)
        figures[f"consume {size} B over TLS, records/s"] = perf.consume(broker.run, topic, records, properties, address)
        delete_topic(broker.run, topic)
    figures["TLS handshakes/s"] = _handshakes(broker)
    figures["SCRAM-SHA-256 logins/s"] = _logins(broker)
    figures[f"{IDLE:,} idle TLS connections, KB each"] = _idle_kilobytes(broker)
    return figures


def _handshakes(broker: Secured) -> float:
    """Return handshakes a second of OpenSSL's own client, each on a new connection."""

    def command(seconds: int) -> Sequence[str]:
        target = ("-connect", broker.bootstrap("SSL"), "-CAfile", str(broker.authority))
        return ("openssl", "s_time", "-new", "-tls1_3", "-time", str(seconds), *target)

    _outputs(command(WARM_UP_SECONDS))
    found = [
        re.search(r"(\d+) connections in (\d+) real seconds", text) for text in _outputs(command(MEASURED_SECONDS))
    ]
    return sum(int(each[1]) / int(each[2]) for each in found if each)


def _logins(broker: Secured) -> float:
    """Return logins a second, each on a new connection."""

    def command(seconds: int) -> Sequence[str]:
        target = (HOST, str(broker.ports["SASL_PLAINTEXT"]), USER, PASSWORD, str(seconds))
        return (sys.executable, "-m", "benchmarks.logins", *target)

    _outputs(command(WARM_UP_SECONDS))
    return sum(map(int, _outputs(command(MEASURED_SECONDS)))) / MEASURED_SECONDS


def _outputs(command: Sequence[str]) -> list[str]:
    """Run several clients at a time; return their outputs."""
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
    outputs = [client.communicate()[0] for client in running]
    assert not any(client.returncode for client in running), outputs
    return outputs


def _idle_kilobytes(broker: Secured) -> float:
    context = ssl.create_default_context(cafile=str(broker.authority))
    with ExitStack() as opened:
        before = broker.run.resident_megabytes()
        for _ in range(IDLE):
            plain = socket.create_connection((HOST, broker.ports["SSL"]))
            opened.enter_context(context.wrap_socket(plain, server_hostname=HOST))
        return (broker.run.resident_megabytes() - before) * 1e3 / IDLE


def access_control() -> Figures:
    """Measure small requests with an authorizer and 10,000 ACLs, as a share of those without an authorizer.

    Both brokers of a pair run at the same time and are loaded in turns: the machine's speed changes by the minute.
    """
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(REPETITIONS):
        for name in COMPARED if number % 2 else reversed(COMPARED):
            without, guarded = secured(name, **{"authorizer.class.name": ""}), secured(name)
            with without.run as plain, guarded.run as other:
                _add_entries(guarded)
                for run in (plain, other):
                    make_topic(run, small.TOPIC)
                    small.rate(run, small.WARM_UP_SECONDS, 5)
                for in_flight in (1, 5):
                    figure = f"with {ENTRIES:,} ACLs, times small requests/s, {in_flight} in flight"
                    figures[figure][name].append(_share(plain, other, in_flight))
    return figures


def _share(plain: Run, guarded: Run, in_flight: int) -> float:
    """Return the median of the rates of one broker, each divided by the mean of the other's before and after it."""
    before = small.rate(plain, TURN_SECONDS, in_flight)
    shares = []
    for _ in range(TURNS):
        between = small.rate(guarded, TURN_SECONDS, in_flight)
        after = small.rate(plain, TURN_SECONDS, in_flight)
        shares.append(2 * between / (before + after))
        before = after
    return statistics.median(shares)


def _add_entries(broker: Secured) -> None:
    """Allow all users everything with the topic of the requests, and others something with many other topics."""
    own = _entry("User:ANONYMOUS", small.TOPIC, ACLOperation.ALL)
    others = [_entry(f"User:user-{number % 100}", f"topic-{number}", ACLOperation.READ) for number in range(ENTRIES)]
    entries = [own, *others]
    with admin(broker.run) as client:
        for start in range(0, len(entries), ENTRIES_AT_ONCE):
            answer = client.create_acls(entries[start : start + ENTRIES_AT_ONCE])
            assert not answer["failed"], answer["failed"][0]


def _entry(principal: str, topic: str, operation: ACLOperation) -> ACL:
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    return ACL(principal, "*", operation, ACLPermissionType.ALLOW, pattern)
