"""Spark 3.5's Kafka connector, which uses kafka-clients 3.4.1."""

import json
import subprocess

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.old_clients.clients import HERE
from compat_tests.old_clients.installing import HOME, python_client
from spark_jobs.versions import LINES

SPARK_VERSION = LINES["3.5"].spark
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.12:{SPARK_VERSION}"
SECONDS_MAX = 240


def test_spark_writes_reads_and_resumes(bootstrap, topic, tmp_path):
    for way in ("admin", "group"):
        create_topic(bootstrap, f"{topic}-{way}", partitions=2)
    command = [python_client(f"pyspark=={SPARK_VERSION}"), HERE / "spark_client.py"]
    done = subprocess.run(
        [*command, bootstrap, topic, CONNECTOR, HOME / "spark-connector.lock", tmp_path],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reported = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    written = sorted(f"value-{number}" for number in range(30))
    assert [each["way"] for each in reported] == ["admin", "group"]
    for each in reported:
        assert each["batch"] == written
        assert sorted(each["first"]) == written
        assert sorted(each["second"]) == [f"value-{number}" for number in range(30, 40)]
