"""The pipeline's command: a whole run by itself, one line for each failure, and the command line of spark-submit."""

import os
import signal
import subprocess
import sys
import zipfile

import pytest

from compat_tests.harness.paths import ROOT
from compat_tests.harness.ports import free_ports
from compat_tests.harness.waiting import eventually
from spark_jobs import submit, versions
from spark_jobs.tests.support import create_topic

JOB_SECONDS = 150


def call(*arguments):
    """Run the command in a process of its own; return its exit status and what it said."""
    command = [sys.executable, "-m", "spark_jobs.pipeline", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=JOB_SECONDS, check=False
    )
    return done.returncode, done.stderr.strip().splitlines()


def options(bootstrap, topic, directory, **more):
    chosen = {
        "bootstrap": bootstrap,
        "input": topic,
        "checkpoint": f"{directory}/checkpoint",
        "tables.path": f"{directory}/tables",
        "tables.format": "parquet",
        "queries": "raw",
    }
    return [word for key, value in (chosen | more).items() for word in ("--set", f"{key}={value}")]


@pytest.mark.short
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["run", "--set", "bootstrap"], "pipeline: --set bootstrap: write KEY=VALUE"),
        (["run", "--set", "bootstrap=a:1"], "pipeline: input: this key is missing"),
        (["run", "--config", "none.toml"], "pipeline: none.toml: No such file or directory"),
    ],
)
def test_a_wrong_option_is_one_line(arguments, line):
    assert call(*arguments) == (2, [line])


def test_an_unreachable_broker_is_one_line(tmp_path):
    (port,) = free_ports(1)
    status, lines = call("run", *options(f"127.0.0.1:{port}", "events", tmp_path), "--set", "librdkafka.log_level=0")
    assert status == 2
    assert len(lines) == 1
    assert lines[0].startswith(f"pipeline: bootstrap: 127.0.0.1:{port}: ")


def test_a_missing_topic_is_one_line(bootstrap, tmp_path):
    status, lines = call("run", *options(bootstrap, "no-such-topic", tmp_path))
    assert (status, lines) == (2, ["pipeline: input: topic no-such-topic does not exist, create it"])


def test_topics_are_created_once(bootstrap, topic, tmp_path):
    chosen = [*options(bootstrap, topic, tmp_path, queries="raw,counts"), "--partitions", "3"]
    for result in ("created", "exists"):
        status, lines = call("topics", *chosen, "--replication-factor", "1")
        assert (status, lines[-1].partition("INFO ")[2]) == (0, f"{topic} {result}, {topic}-counts {result}")


def test_events_are_generated_and_processed(spark, bootstrap, topic, tmp_path):
    create_topic(bootstrap, topic, 2)
    chosen = options(bootstrap, topic, tmp_path)
    status, lines = call("generate", *chosen, "--rate", "100000", "--count", "500")
    assert (status, lines[-1].partition("INFO ")[2]) == (0, "500 events sent")
    status, lines = call("run", *chosen, "--available-now")
    assert (status, lines[-1].partition("INFO ")[2]) == (0, "everything that was there is processed")
    raw = spark.read.parquet(f"{tmp_path}/tables/raw")
    assert raw.count() == raw.select("partition", "offset").distinct().count() == 500
    status, lines = call("run", *chosen, "--set", "name=another", "--available-now")
    belongs = f"checkpoint {tmp_path}/checkpoint belongs to pipeline pipeline with input {topic}"
    assert (status, lines[-1]) == (2, f"pipeline: {belongs}")
    status, lines = call("run", *chosen, "--set", f"checkpoint={tmp_path}/other", "--available-now")
    assert status == 1
    assert "table raw belongs to query " in lines[-1]
    assert "use the checkpoint of that query" in lines[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_pipeline_between_two_batches(bootstrap, topic, tmp_path, number):
    create_topic(bootstrap, topic)
    command = [sys.executable, "-m", "spark_jobs.pipeline", "run", *options(bootstrap, topic, tmp_path)]
    with (tmp_path / "said").open("w") as said:
        job = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=said)
    try:
        eventually((tmp_path / "checkpoint" / "raw" / "commits" / "0").exists, "a batch has ended", JOB_SECONDS)
        job.send_signal(number)
        assert job.wait(JOB_SECONDS) == 0
    finally:
        job.kill()
        job.wait()
    assert (tmp_path / "said").read_text().endswith("INFO stopped\n")


def test_spark_submit_gets_packages_and_python_files(tmp_path, capsys):
    archive = tmp_path / "jobs.zip"
    given = ["--master", "spark://a:7077", "--conf", "spark.executor.cores=1", "--archive", str(archive), "--print"]
    assert submit.main([*given, "--", "run", "--config", "x.toml"]) == 0
    words = capsys.readouterr().out.split()
    assert words[0].endswith("/bin/spark-submit")
    assert words[words.index("--packages") + 1] == ",".join(versions.packages("delta"))
    assert words[words.index("--master") + 1] == "spark://a:7077"
    assert words[-4].endswith("spark_jobs/pipeline/__main__.py")
    assert words[-3:] == ["run", "--config", "x.toml"]
    names = set(zipfile.ZipFile(archive).namelist())
    assert {"kwire/spark/exactly_once.py", "spark_jobs/pipeline/run.py"} <= names
    assert not any("/tests/" in name for name in names)
