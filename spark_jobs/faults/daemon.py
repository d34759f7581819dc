"""Parent of the Python workers. It has imported what they need, so a worker that replaces a killed one starts soon."""

import confluent_kafka.admin  # noqa: F401 for the workers
import pandas as pd  # noqa: F401
import pyarrow as pa  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
