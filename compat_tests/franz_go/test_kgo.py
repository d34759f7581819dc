"""Each test of franz-go's package kgo, with its result from one run of all of them."""

import pytest

from compat_tests.franz_go.running import SUBTESTS, Result
from compat_tests.harness.outcomes import skip_as_declared

DECLARED = {
    "TestSCRAMAuth": "kwire does not serve authentication",
    "TestSCRAMAuthBadCredentials": "kwire does not serve authentication",
    "TestOAuthAuth": "kwire does not serve authentication",
    "TestIssueProduceBrokerTooOldFailsRecords": "Apache Kafka 4.3.1 advertises Produce from version 0 on",
}
"""Tests that franz-go skips on both brokers, with the reason."""


def test_kgo(results, go_test):
    result = results.get(go_test, Result())
    if result.action == "skip":
        if go_test in DECLARED:
            skip_as_declared(DECLARED[go_test])
        pytest.skip(result.output)
    shown = [each for name, each in results.items() if name == go_test or name.startswith(f"{go_test}/")]
    output = "".join(each.output for each in shown if each.action != "pass")
    assert result.action == "pass", output or f"{go_test} did not run:\n{results[''].output}"


def test_each_kind_of_group_is_reported(results):
    parents = {name.split("/")[0] for name in SUBTESTS}
    assert {name for name in results if "/" in name and name.split("/")[0] in parents} == set(SUBTESTS)
