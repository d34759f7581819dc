"""Command of the pipeline.

    python -m spark_jobs.pipeline topics --config pipeline.toml --partitions 6 --replication-factor 3
    python -m spark_jobs.pipeline run --config pipeline.toml [--available-now] [--set events.window='5 minutes']
    python -m spark_jobs.pipeline backfill --config pipeline.toml --from 2026-01-01T00:00:00Z
    python -m spark_jobs.pipeline maintain --config pipeline.toml [--retention-hours 168]
    python -m spark_jobs.pipeline generate --config pipeline.toml --rate 1000 [--count 100000]

`topics` creates the topics that do not exist. `run` runs until SIGTERM or Ctrl-C, and then ends between two batches. A
restart continues from the checkpoint. With --available-now it processes what is there and ends. Exit status: 0 after a
clean end, 1 after a failure, 2 if the configuration or an option is wrong.
"""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType

from confluent_kafka import KafkaException
from pyspark.errors import PySparkException

from spark_jobs.pipeline import run
from spark_jobs.pipeline.backfill import backfill
from spark_jobs.pipeline.config import Config, ConfigError, read_config
from spark_jobs.pipeline.generate import Stream, generate
from spark_jobs.pipeline.maintain import maintain
from spark_jobs.pipeline.topics import check_topics, create_topics

logger = logging.getLogger("spark_jobs.pipeline")


def parser() -> argparse.ArgumentParser:
    summary, _, rest = (__doc__ or "").partition("\n")
    made = argparse.ArgumentParser(
        prog="pipeline", description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = made.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("--config", type=Path, metavar="FILE", help="the configuration, in TOML")
        added.add_argument(
            *("--set", "-s"), action="append", default=[], metavar="KEY=VALUE", help="override a key: events.window=..."
        )
        return added

    creating = command("topics", "create the topics that do not exist")
    creating.add_argument("--partitions", type=int, default=6, metavar="N", help="default: %(default)s")
    creating.add_argument("--replication-factor", type=int, default=3, metavar="N", help="default: %(default)s")
    running = command("run", "run the pipeline")
    running.add_argument("--available-now", action="store_true", help="process what is there, then end")
    filling = command("backfill", "fill the tables from a time range, before the first run")
    filling.add_argument(
        "--from", dest="begin", type=_time, required=True, metavar="TIME", help="RFC 3339, with a zone"
    )
    filling.add_argument("--until", type=_time, metavar="TIME", help="default: the end of the topic")
    maintaining = command("maintain", "compact the tables, and delete files that no reader needs")
    maintaining.add_argument("--retention-hours", type=float, default=168.0, metavar="N", help="default: %(default)s")
    generating = command("generate", "send events of devices")
    generating.add_argument("--rate", type=float, default=1000.0, metavar="N", help="events per second")
    generating.add_argument("--count", type=int, metavar="N", help="default: until it is stopped")
    generating.add_argument("--seed", type=int, default=1, metavar="N")
    return made


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time with a zone, such as 2026-01-01T00:00:00Z")
    return found


def configuration(arguments: argparse.Namespace) -> Config:
    """Return the configuration. Raises ConfigError."""
    overrides = {}
    for each in arguments.set:
        key, equals, value = each.partition("=")
        if not equals:
            raise ConfigError(f"--set {each}: write KEY=VALUE")
        overrides[key] = value
    return read_config(arguments.config, overrides)


def execute(arguments: argparse.Namespace, config: Config, stopping: threading.Event) -> str:
    """Run the command and return a line about its result. Raises ConfigError, KafkaException, PySparkException."""
    if arguments.command == "generate":
        stream = Stream(topic=config.input, seed=arguments.seed, per_second=arguments.rate, count=arguments.count)
        return f"{generate(config.producer, stream, stopping)} events sent"
    if arguments.command == "topics":
        return ", ".join(create_topics(config, arguments.partitions, arguments.replication_factor, stopping))
    if arguments.command != "maintain":
        check_topics(config)
    with run.session(config) as spark:
        stop_by_signals(stopping)  # Spark's start has replaced the handler of Ctrl-C
        if arguments.command == "backfill":
            over = backfill(spark, config, arguments.begin, arguments.until)
            return f"{sum(over.end.values()) - sum(over.begin.values())} offsets filled"
        if arguments.command == "maintain":
            return "; ".join(maintain(spark, config, arguments.retention_hours))
        run.run(spark, config, stopping, available_now=arguments.available_now)
    return "stopped" if stopping.is_set() else "everything that was there is processed"


def main(given: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(given)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logger.setLevel(logging.INFO)
    stopping = threading.Event()
    stop_by_signals(stopping)
    try:
        result = execute(arguments, configuration(arguments), stopping)
    except ConfigError as error:
        return failed(str(error), 2)
    except PySparkException as error:
        return failed(run.one_line(error), 1)
    except KafkaException as error:
        return failed(error.args[0].str(), 1)
    logger.info("%s", result)
    return 0


def stop_by_signals(stopping: threading.Event) -> None:
    """Set the event on SIGTERM and Ctrl-C."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def failed(text: str, status: int) -> int:
    print(f"pipeline: {text}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
