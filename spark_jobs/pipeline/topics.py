"""The topics of a pipeline: which it needs, and their creation."""

import threading
import time
from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from spark_jobs.pipeline.config import Config, ConfigError

CHECK_SECONDS = 10.0
CREATE_SECONDS = 60.0
POLL_SECONDS = 0.5


def needed(config: Config) -> dict[str, str]:
    """Return the topics of the configured queries by their keys in the configuration."""
    outputs = {"counts": "output", "dead_letters": "dead_letters"}
    keys = ["input", *(key for query, key in outputs.items() if query in config.queries)]
    return {key: getattr(config, key) for key in keys}


def check_topics(config: Config) -> None:
    """Raise ConfigError if no broker responds or a topic is missing: Spark would try for minutes, or in vain."""
    admin = AdminClient({**config.producer, "socket.connection.setup.timeout.ms": int(1000 * CHECK_SECONDS)})
    try:
        found = admin.list_topics(timeout=CHECK_SECONDS).topics
    except KafkaException as error:
        raise ConfigError(f"bootstrap: {config.bootstrap}: {error.args[0].str()}") from error
    for key, topic in needed(config).items():
        if topic not in found:
            raise ConfigError(f"{key}: topic {topic} does not exist, create it")


def create_topics(config: Config, partitions: int, replication_factor: int, stopping: threading.Event) -> Iterator[str]:
    """Create the topics that do not exist; yield a line about each. Raises ConfigError and KafkaException."""
    admin = AdminClient(config.producer)
    _await_brokers(admin, replication_factor, stopping)
    new = [NewTopic(topic, partitions, replication_factor) for topic in needed(config).values()]
    for topic, made in admin.create_topics(new).items():
        try:
            made.result(CREATE_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            yield f"{topic} exists"
        else:
            yield f"{topic} created"


def _await_brokers(admin: AdminClient, count: int, stopping: threading.Event) -> None:
    """Wait until the cluster has as many brokers as a topic has replicas. Raises ConfigError."""
    deadline = time.monotonic() + CREATE_SECONDS
    while (found := _brokers(admin)) < count and time.monotonic() < deadline and not stopping.is_set():
        stopping.wait(POLL_SECONDS)
    if found >= count:
        return
    raise ConfigError(f"--replication-factor {count}: only {found} brokers are there, start the others")


def _brokers(admin: AdminClient) -> int:
    try:
        return len(admin.list_topics(timeout=CHECK_SECONDS).brokers)
    except KafkaException:
        return 0
