"""Where kwire's answer differs on purpose; docs/differences.md has the reasons."""

#: The features that kwire finalises; Kafka finalises more. None is advertised before it is served.
FINALISED = {"eligible.leader.replicas.version", "kraft.version", "metadata.version", "transaction.version"}
