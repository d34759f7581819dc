"""Fixtures: the broker under test and Apache Kafka, both compacting as often as possible."""

import pytest

from compat_tests.configs.conftest import both, each, kafka, peer, reference  # noqa: F401 fixtures
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BACKOFF_MS = "200"


@pytest.fixture(autouse=True)
def _eager(each):  # noqa: F811 the fixture
    """Make every cleaner look for work without pauses."""
    setting = IncrementalAlterConfigsAlterableConfig(
        name="log.cleaner.backoff.ms", config_operation=0, value=BACKOFF_MS
    )
    for one in each:
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=int(ConfigResourceType.BROKER), resource_name="", configs=[setting]
        )
        (answer,) = one.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
        assert answer.error_code == 0, answer
