"""Results of `make compat ROW=kafka-tests`: each run gets an id, a state, and the entry that allows a failure."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

# Untyped, and not checked by mypy.
allowed: Any = importlib.import_module("compat_tests.kafka_tests.allowed")
judging: Any = importlib.import_module("compat_tests.kafka_tests.judging")
running: Any = importlib.import_module("compat_tests.kafka_tests.running")
TAGS = "MetadataVersion=4.4-IV0,BrokerSecurityProtocol=PLAINTEXT,BrokerListenerName=ListenerName(EXTERNAL)"


def invocation(**more: object) -> dict[str, object]:
    return {"id": "TopicTest.testIt", "status": "failed", "errors": ["java.lang.AssertionError: no"], **more}


def test_ids_contain_the_cluster_type_and_not_the_invocation_number() -> None:
    lines = [
        {"class": "a.b.TopicTest", "method": "testIt", "name": f"testIt [{number}] Type=Raft-{shape}, {TAGS}"}
        for number, shape in ((1, "Combined"), (2, "Isolated"), (3, "Isolated"))
    ]
    assert [each["id"] for each in running.named(lines)] == [
        "TopicTest.testIt[Type=Raft-Combined]",
        "TopicTest.testIt[Type=Raft-Isolated]",
        "TopicTest.testIt[Type=Raft-Isolated]#2",
    ]


def test_a_method_without_a_cluster_of_its_own_has_no_brackets() -> None:
    assert (
        running.named([{"class": "TopicTest", "method": "testIt", "name": "testIt()"}])[0]["id"] == "TopicTest.testIt"
    )


def test_a_passing_test_that_uses_broker_internals_is_passed() -> None:
    assert judging.judge(invocation(status="passed", insides=["BrokerServer.logManager"])).state == judging.PASSED


def test_a_failing_test_that_uses_broker_internals_is_judged_insides() -> None:
    verdict = judging.judge(invocation(insides=["BrokerServer.logManager"]))
    assert (verdict.state, verdict.what) == (judging.INSIDES, "BrokerServer.logManager")


@pytest.mark.parametrize(
    ("reported", "capability"),
    [
        ("kwire: listener.name.a.gssapi.sasl.jaas.config: is missing; give the key tab", "Kerberos (GSSAPI)"),
        ("kwire: sasl.mechanism.inter.broker.protocol: GSSAPI is not served, and listener A", "Kerberos (GSSAPI)"),
        ("kwire: sasl.enabled.mechanisms: GSSAPI on listener A needs the extra kerberos", "Kerberos (GSSAPI)"),
        ("kwire: some.setting: is not served yet, only its default", "the setting some.setting"),
    ],
)
def test_capabilities_are_named(reported: str, capability: str) -> None:
    verdict = judging.judge(invocation(errors=["java.lang.AssertionError: timed out", reported]))
    assert (verdict.state, verdict.what) == (judging.CAPABILITY, capability)


def test_an_unexplained_failure_is_failed() -> None:
    assert judging.judge(invocation()).state == judging.FAILED


@pytest.mark.parametrize("entry", ["TopicTest.*", "TopicTest.testIt", "TopicTest.testIt[Type=Raft-Isolated]#2"])
def test_entries_cover_a_class_a_method_or_an_invocation(entry: str) -> None:
    entries = {entry: (judging.CAPABILITY, "why")}
    assert allowed.covering("TopicTest.testIt[Type=Raft-Isolated]#2", entries) == entry
    assert allowed.covering("TopicsTest.testIt[Type=Raft-Isolated]#2", entries) is None


def test_each_entry_has_a_state_and_a_reason() -> None:
    assert not [
        name
        for name, (state, reason) in allowed.read().items()
        if state not in (judging.FAILED, judging.INSIDES, judging.CAPABILITY) or not reason
    ]


def test_a_test_of_jvm_internals_is_recognised_by_its_id() -> None:
    verdict = judging.judge(invocation(id="SocketServerMemoryPoolTest.testIt", errors=["NullPointerException"]))
    assert (verdict.state, verdict.what) == (judging.INSIDES, "the memory pool of a broker")
