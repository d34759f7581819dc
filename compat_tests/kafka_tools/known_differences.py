"""Intended differences of kwire's output; docs/differences.md has the reasons."""

#: Features that kwire finalises; Kafka finalises more. kwire advertises a feature only when it serves it.
FINALISED = {"eligible.leader.replicas.version", "kraft.version", "metadata.version", "transaction.version"}
