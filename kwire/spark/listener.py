"""Progress of streaming queries for other tools: metrics for Prometheus, and offsets in a shadow consumer group.

Spark keeps its offsets in its checkpoint and commits none, so that no Kafka tool sees how far a query is behind. The
shadow group of a query has these offsets after each batch. Spark never reads them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from kwire.spark.source_offsets import PartitionOffsets, partition_offsets

logger = logging.getLogger(__name__)

SHADOW_GROUP: Final = "spark-{query}"
TIMEOUT_SECONDS: Final = 10.0
_PREFIX: Final = "kwire_spark"


class Metrics:
    """Metrics of all queries of a driver. Each has the label `query`, the query's name or its id."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, ("query", *labels), registry=registry)

        self.input_rate = gauge("input_rows_per_second", "Rate at which rows arrived in the last batch.")
        self.processed_rate = gauge("processed_rows_per_second", "Rate at which the last batch was processed.")
        self.batch_seconds = gauge("batch_duration_seconds", "Duration of the last batch.")
        self.batch = gauge("batch_id", "Number of the last batch.")
        self.state_rows = gauge("state_rows", "Rows in the state of all operators.")
        self.state_bytes = gauge("state_memory_bytes", "Memory of the state of all operators.")
        self.lag = gauge("lag_offsets", "Offsets that the query has not read.", "topic", "partition")
        self.is_active = gauge("query_active", "1 while the query runs, 0 after it has ended.")
        self.rows = Counter(f"{_PREFIX}_input_rows", "Rows that the query has read.", ("query",), registry=registry)
        self.observed = gauge("observed", "Metric of observe() in the last batch.", "observation", "metric")
        self.observed_sum = Counter(
            f"{_PREFIX}_observed_sum",
            "Sum of a metric of observe() over all batches.",
            ("query", "observation", "metric"),
            registry=registry,
        )
        self.late_rows = Counter(
            f"{_PREFIX}_late_rows", "Rows that the watermark has dropped.", ("query",), registry=registry
        )

    def take(self, query: str, progress: Mapping[str, Any], partitions: Sequence[PartitionOffsets]) -> None:
        """Set the metrics from the progress of a batch."""
        operators = progress.get("stateOperators", ())
        self.input_rate.labels(query).set(progress.get("inputRowsPerSecond") or 0.0)
        self.processed_rate.labels(query).set(progress.get("processedRowsPerSecond") or 0.0)
        self.batch_seconds.labels(query).set(progress.get("durationMs", {}).get("triggerExecution", 0) / 1000)
        self.batch.labels(query).set(progress["batchId"])
        self.state_rows.labels(query).set(sum(each["numRowsTotal"] for each in operators))
        self.state_bytes.labels(query).set(sum(each["memoryUsedBytes"] for each in operators))
        self.rows.labels(query).inc(progress.get("numInputRows", 0))
        self.late_rows.labels(query).inc(sum(each.get("numRowsDroppedByWatermark", 0) for each in operators))
        for observation, metrics in progress.get("observedMetrics", {}).items():
            for name, value in metrics.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self.observed.labels(query, observation, name).set(value)
                    self.observed_sum.labels(query, observation, name).inc(max(value, 0))
        for each in partitions:
            self.lag.labels(query, each.topic, each.partition).set(each.lag)


class ProgressListener(StreamingQueryListener):  # type: ignore[misc] # pyspark has no types here
    """Listener that exports the progress of every query of a Spark session.

        spark.streams.addListener(ProgressListener({"bootstrap.servers": "127.0.0.1:9092"}))

    `config` has librdkafka's properties; without it, no shadow group is written. `shadow_group` may contain {query}.
    Start prometheus_client.start_http_server to serve the metrics.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        shadow_group: str = SHADOW_GROUP,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self.registry = registry
        self.metrics = Metrics(registry)
        self._admin = None if config is None else AdminClient(dict(config))
        self._shadow_group = shadow_group
        self._names: dict[str, str] = {}
        """Name of each query by the id of its run."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 Spark's name
        name = event.name or str(event.id)
        self._names[str(event.runId)] = name
        self.metrics.is_active.labels(name).set(1)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 Spark's name
        progress = json.loads(event.progress.json)
        name = progress.get("name") or progress["id"]
        partitions = list(partition_offsets(progress))
        self.metrics.take(name, progress, partitions)
        if partitions and self._admin is not None:
            self._commit(self._admin, self._shadow_group.format(query=name), partitions)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 Spark's name
        """Do nothing: the metrics of the last batch hold."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 Spark's name
        name = self._names.pop(str(event.runId), str(event.id))
        self.metrics.is_active.labels(name).set(0)

    def _commit(self, admin: AdminClient, group: str, partitions: Sequence[PartitionOffsets]) -> None:
        """Commit without waiting: Spark delivers its events one after the other."""
        offsets = [TopicPartition(each.topic, each.partition, each.end) for each in partitions]
        request = ConsumerGroupTopicPartitions(group, offsets)
        (future,) = admin.alter_consumer_group_offsets([request], request_timeout=TIMEOUT_SECONDS).values()
        future.add_done_callback(lambda done: _log_failure(group, done.exception()))


def _log_failure(group: str, error: BaseException | None) -> None:
    if isinstance(error, KafkaException):
        logger.warning("group %s does not get the offsets of its query: %s", group, error.args[0].str())
    elif error is not None:
        logger.warning("group %s does not get the offsets of its query: %s", group, error)
