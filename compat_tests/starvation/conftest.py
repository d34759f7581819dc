"""Fixtures: the attacked broker with its data, the victim, and the evidence that is written at the end."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from compat_tests.harness.kwire_broker import KwireBroker
from compat_tests.harness.ports import free_ports
from compat_tests.harness.reference import ApacheKafka, class_path
from compat_tests.starvation.evidence import Evidence
from compat_tests.starvation.judging import Judge

PRIORITY = -10
"""Nice value of the broker, and of the session's scheduling group. Otherwise other processes of the machine delay the
broker and the victim as much as the attacker does. It needs root; without it the figures include that delay.
"""
AUTOGROUP = Path("/proc/self/autogroup")
AS_SHIPPED = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""Kafka's own options for the JVM: the harness's smaller heap and simpler collector would make the control slow."""


class KafkaAsShipped(ApacheKafka):
    """Apache Kafka with the options of its start script."""

    @staticmethod
    def java(main):
        return ["java", *AS_SHIPPED, "-cp", class_path(), main]


BROKERS = {"kwire": KwireBroker, "kafka": KafkaAsShipped}


@pytest.fixture(scope="session", autouse=True)
def priority():
    """Set the session's priority. Linux shares CPUs between sessions first; nice values count inside (autogroups)."""
    with suppress(OSError):
        os.nice(PRIORITY)
        AUTOGROUP.write_text(str(PRIORITY))
    yield
    with suppress(OSError):
        AUTOGROUP.write_text("0")


@pytest.fixture(scope="session")
def tested(request):
    return request.config.getoption("--broker")


@pytest.fixture(scope="session")
def judge(tested):
    return Judge(tested)


@pytest.fixture(scope="session")
def evidence(tested, request):
    """Yield the writer of the evidence page; the short form leaves the page unchanged."""
    return Evidence(tested, is_written=request.config.getoption("-m") != "short")


@pytest.fixture(scope="module")
def one_broker(tested, tmp_path_factory):
    started = BROKERS[tested](tmp_path_factory.mktemp("broker"), free_ports(1)[0])
    try:
        started.start()
        yield started
    finally:
        started.kill()
