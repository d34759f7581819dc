"""Classification of an invocation: passed, failed, or in need of something that kwire does not have."""

import re
from dataclasses import dataclass

from compat_tests.kafka_tests import allowed
from compat_tests.kafka_tests.allowed import CAPABILITY

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"
INSIDES = "needs the JVM's insides"
NOT_SERVED_REASON = "not served yet"
"""The launcher's skip reason for an invocation that it leaves out."""

IN_THIS_JVM = r"Unable to find metric|AssertionError: metric not found|No such MBean|InstanceNotFoundException"
"""Errors of tests that look for a broker's metrics in their own JVM."""
#: Capability to patterns of the error that a client, a node or `kwire format` reports without it.
BY_ERROR = {
    "Kerberos (GSSAPI)": r"GSSAPI is not served|gssapi\.sasl\.jaas\.config|needs the extra kerberos"
    r"|directory\.api\.ldap",
    "unsigned tokens (OAUTHBEARER)": r"sasl\.oauthbearer\.token\.endpoint\.url: is no URL",
    "remote storage": r"remote\.(?:log|storage)\S*: is not served|REMOTE_|remote\.storage\.enable",
    "plugins in Java": r"(?:callback\.class|policy\.class\.name|reporters|plugin|builder\.class)\S*: is not served"
    r"|kwire: \S+: (?:Invalid value \S+ for configuration \S+: )?Class \S+ (?:could not|cannot) be found",
}
#: Capability to patterns of the ids of tests that test only this capability, whatever their first error is.
BY_NAME = {
    "remote storage": r"\bRemote\w+Test\.|TopicBasedRemote\w+Test\.",
    "plugins in Java": r"\bClientTelemetryTest\.testClientInstanceId|\bEndToEndClusterIdTest\."
    r"|\bSslAdminIntegrationTest\.test\w*(?:nchronousAuthorizer$|AuthorizerAclUpdates\w*BlockRequestThreads$)",
    "metadata.version 4.4-IV0, unstable in 4.3.1": r"\bMetadataVersionIntegrationTest\.testDefaultIsLatestVersion"
    r"|\bBootstrapControllersIntegrationTest\.testDescribeFeatures",
    "unstable versions of APIs": r"\bBrokerApiVersionsCommandTest\.testBrokerApiVersionsCommandOutput"
    r"|\bSaslApiVersionsRequestTest\.testApiVersionsRequest(?:BeforeSaslHandshakeRequest|WithUnsupportedVersion)\["
    r"|\bApiVersionsRequestTest\.testApiVersionsRequest(?:IncludesUnreleasedApis|(?:ValidationV0)?ThroughControllerListener)?\[",
}


#: Object inside the JVM that a test reads directly, without a stub, to patterns of the tests' ids.
INSIDES_BY_NAME = {
    "a combined node whose broker alone is stopped": r"\.testDescribeConsumerGroupWithoutLeaders\[.*Raft-Combined",
    "the memory pool of a broker": r"\bSocketServerMemoryPoolTest\.",
    "metrics of the broker": r"\bBrokerMetricNamesTest\.|\bMetricsTest\.",
    "the principal builder of a broker": r"\bPlaintextEndToEndAuthorizationTest\.testListenerName",
    "the configuration object of a broker": r"\bConfigCommandIntegrationTest\.testUpdateBrokerConfigNotAffected",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    state: str
    what: str = ""
    """The missing capability or object, or the error."""
    is_left_out: bool = False
    """True if the launcher left it out because the allow-list says that it needs a missing capability."""


def judge(invocation: dict) -> Verdict:
    if invocation["status"] == SKIPPED and invocation.get("reason") == NOT_SERVED_REASON:
        return Verdict(CAPABILITY, _left_out_for(invocation), is_left_out=True)
    if invocation["status"] != FAILED:
        return Verdict(invocation["status"], invocation.get("reason", ""))
    if invocation.get("insides"):
        return Verdict(INSIDES, sorted(set(invocation["insides"]))[0])
    reported = "\n".join(invocation.get("errors", ()))
    if re.search(IN_THIS_JVM, reported):
        return Verdict(INSIDES, "metrics of the broker")
    for inside, pattern in INSIDES_BY_NAME.items():
        if re.search(pattern, invocation["id"]):
            return Verdict(INSIDES, inside)
    for capability, pattern in BY_NAME.items():
        if re.search(pattern, invocation["id"]):
            return Verdict(CAPABILITY, capability)
    for capability, pattern in BY_ERROR.items():
        if re.search(pattern, reported):
            return Verdict(CAPABILITY, capability)
    if re.search(r"No MetadataVersion with feature level \d+|metadata\.version (?:is at level )?\d+", reported):
        return Verdict(CAPABILITY, "metadata versions before 4.0")
    if setting := re.search(r"kwire: (\S+): is not served yet", reported):
        return Verdict(CAPABILITY, f"the setting {setting[1]}")
    return Verdict(FAILED, summary(reported))


def _left_out_for(invocation: dict) -> str:
    entries = allowed.read()
    entry = allowed.covering(invocation["id"], entries)
    return entries[entry][1] if entry else "unknown"


def summary(reported: str) -> str:
    return " ".join(reported.split())[:160]
