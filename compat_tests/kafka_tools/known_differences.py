"""Where kwire's answer differs on purpose; docs/differences.md has the reasons."""

import re

MIN_INSYNC = re.compile(
    r"^ min\.insync\.replicas=.*\n"  # a line of kafka-configs
    r"|min\.insync\.replicas=1,| min\.insync\.replicas=1$",  # in the list of kafka-topics
    re.MULTILINE,
)

#: The features that kwire finalises; Kafka finalises more. None is advertised before it is served.
FINALISED = {"kraft.version", "metadata.version", "transaction.version"}


def without_min_insync_replicas(text: str) -> str:
    """Kafka sets it for all brokers by itself while eligible leader replicas are on; kwire has not that feature."""
    return MIN_INSYNC.sub("", text)
