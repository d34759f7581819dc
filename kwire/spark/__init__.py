"""Library for PySpark jobs that read and write Kafka: install it with `pip install kwire[spark]`.

It works with every Kafka cluster. A job needs it on the driver and on the workers.

- `ExactlyOnceSink` writes each batch of a stream to a topic exactly once.
- `ProgressListener` exports rates, batch times and lag to Prometheus, and commits a query's offsets to a shadow group.
"""

from kwire.spark.exactly_once import ExactlyOnceSink
from kwire.spark.listener import ProgressListener
from kwire.spark.progress import ProgressError

__all__ = ["ExactlyOnceSink", "ProgressError", "ProgressListener"]
