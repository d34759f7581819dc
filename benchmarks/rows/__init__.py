"""Rows of the benchmark, in the order of a round: each takes a running broker and returns figures by name."""

from collections.abc import Callable, Mapping

from benchmarks.brokers import Run
from benchmarks.rows import (
    cold,
    compaction,
    connections,
    consumer_groups,
    engine,
    groups,
    latency,
    offsets,
    partitions,
    perf,
    raw,
    replicated,
    restarts,
    secured,
    share_groups,
    small,
    spark,
    start,
    transactions,
)
from benchmarks.rows.engine import Figures

Row = Callable[[Run], Mapping[str, float]]

ROWS: Mapping[str, Row] = {
    "start": start.start,
    "perf-100": perf.perf(100, 500_000),
    "perf-1000": perf.perf(1000, 120_000),
    "small": small.small_requests,
    "raw": raw.raw,
    "latency": latency.latency,
    "end-to-end": latency.end_to_end,
    "cold-reads": cold.cold_reads,
    "memory": start.memory_after_load,
    "connections": connections.idle_connections,
    "partitions": partitions.many_partitions,
    "group": groups.group_join,
    "consumer-group": consumer_groups.consumer_group,
    "share-group": share_groups.share_groups,
    "offset-commits": offsets.offset_commits,
    "spark": spark.spark,
}
ONCE: Mapping[str, Callable[[], Figures]] = {
    "log-append": engine.appends,
    "log-read": engine.reads,
    "log-lookup": engine.lookups,
    "metadata": engine.metadata_changes,
    "restart": restarts.restarts,
    "10000-partitions": restarts.many_partitions,
    "compaction": compaction.compactions,
    "transactions": transactions.transactions,
    "tls": secured.tls,
    "acls": secured.access_control,
    "million-offsets": offsets.million_offsets,
    "three-brokers": replicated.three_brokers,
    "cluster": replicated.cluster,
    "takeover": replicated.takeovers,
    "30-takeovers": replicated.thirty_takeovers,
    "3000-partitions": replicated.many_partitions,
    "spark-three-brokers": spark.three_brokers,
}
"""Rows that are measured once in a run, on brokers and directories of their own, with their own repetitions."""
ALONE = ("spark", "spark-three-brokers", "three-brokers", "cluster", "takeover", "30-takeovers", "3000-partitions")
"""Rows that a run without ROW leaves out because they take too long."""
THRICE = ("perf-100", "perf-1000")
"""Rows of the first three rounds only, because they take longest."""
FIRST = ("start", "perf-100", "perf-1000", "small")
"""Rows that need a fresh broker or warm it up themselves. All others get a warm broker, in a full run or alone."""
