"""Demo: a broker, a generator of device events, the pipeline with a live view, and a report as one HTML page.

    make demo       or: python -m spark_jobs.demo [--seconds 60] [--rate 2000] [--format delta] [--report demo.html]

Everything runs on this machine, on free ports and in a temporary directory. The exit status is 0 if the tables contain
what the generator sent.
"""

import argparse
import json
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.live import Live

import kwire
from spark_jobs.demo.report import Row, report
from spark_jobs.demo.samples import Samples
from spark_jobs.demo.view import view
from spark_jobs.pipeline import run
from spark_jobs.pipeline.config import FORMATS, Config, Events, Tables
from spark_jobs.pipeline.device_events import Kind, Sent
from spark_jobs.pipeline.generate import Stream, generate
from spark_jobs.pipeline.tables.formats import table
from spark_jobs.pipeline.topics import create_topics

PARTITIONS = 4
POLL_SECONDS = 0.5
DRAIN_SECONDS = 120.0
EVENTS = Events(
    ahead="10 seconds", behind="20 seconds", watermark="30 seconds", window="5 seconds", session_gap="2 seconds"
)


def options() -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="demo", description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="time of the generator (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=2000.0, help="events per second (default: %(default)s)")
    parser.add_argument("--format", choices=FORMATS, default="delta", help="format of the tables")
    parser.add_argument("--report", type=Path, default=Path("demo.html"), help="the report (default: %(default)s)")
    return parser.parse_args()


class Demo:
    """Run of the demo."""

    def __init__(self, config: Config, chosen: argparse.Namespace) -> None:
        self.config = config
        self.chosen = chosen
        self.samples = Samples()
        self.sent: Counter[Kind] = Counter()
        self.events: set[str] = set()
        """Ids of the valid events."""

    def committed(self, events: list[Sent]) -> None:
        """Note the events of a transaction."""
        self.sent.update(each.kind for each in events)
        self.events |= {json.loads(each.text)["event_id"] for each in events if each.kind is Kind.COUNTED}
        self.samples.count(len(events))

    def play(self, spark: SparkSession, console: Console) -> list[Row]:
        """Run generator and pipeline; return the results."""
        queries = run.start(spark, self.config, available_now=False)
        ended = threading.Event()
        stream = Stream(
            topic=self.config.input,
            per_second=self.chosen.rate,
            count=int(self.chosen.rate * self.chosen.seconds),
        )
        sender = threading.Thread(
            target=generate, args=(self.config.producer, stream, ended), kwargs={"sent": self.committed}
        )
        sender.start()
        try:
            with Live(view(self.samples, self.chosen.seconds), console=console) as live:
                while sender.is_alive() or self._is_behind():
                    ended.wait(POLL_SECONDS)
                    run.raise_failure(queries)
                    self._look(queries, live)
                    if self.samples.seconds > self.chosen.seconds + DRAIN_SECONDS:
                        break
        except KeyboardInterrupt:
            ended.set()
        sender.join()
        run.stop(queries)
        run.wait(run.start(spark, self.config, available_now=True), threading.Event())
        return self.results(spark)

    def _look(self, queries: list[StreamingQuery], live: Live) -> None:
        self.samples.take(queries)
        live.update(view(self.samples, self.chosen.seconds))

    def _is_behind(self) -> bool:
        newest = self.samples.newest()
        return len(newest) < len(self.config.queries) or any(each.behind for each in newest.values())

    def results(self, spark: SparkSession) -> list[Row]:
        """Return (table, rows, expected rows)."""
        raw, cleaned = (table(spark, self.config.tables, name).read() for name in ("raw", "cleaned"))
        records = raw.select("partition", "offset").distinct().count()
        events = cleaned.select("event_id").distinct().count()
        return [
            ("raw", raw.count(), self.sent.total()),
            ("raw: different offsets", records, self.sent.total()),
            ("cleaned", cleaned.count(), len(self.events)),
            ("cleaned: different events", events, len(self.events)),
        ]


def main() -> int:
    chosen, console = options(), Console()
    with tempfile.TemporaryDirectory(prefix="kwire-demo-") as scratch, kwire.Broker(isolation="process") as broker:
        config = Config(
            bootstrap=broker.bootstrap_server,
            input="device-events",
            checkpoint=f"{scratch}/checkpoint",
            tables=Tables(path=f"{scratch}/tables", format=chosen.format),
            name="demo",
            trigger="2 seconds",
            events=EVENTS,
        )
        list(create_topics(config, PARTITIONS, 1, threading.Event()))
        console.print(f"broker at {config.bootstrap}; Spark starts, its first start downloads packages")
        with run.session(config) as spark:
            demo = Demo(config, chosen)
            results = demo.play(spark, console)
    facts = [
        ("events sent", demo.sent.total()),
        *((f"  {kind.value}", demo.sent[kind]) for kind in Kind),
        ("rate asked for, events per second", f"{chosen.rate:.0f}"),
        ("format of the tables", chosen.format),
    ]
    report(chosen.report, demo.samples, facts, results)
    wrong = [row for row in results if row[1] != row[2]]
    for name, rows, expected in results:
        console.print(f"{name}: {rows} rows, {expected} expected")
    console.print(f"report: {chosen.report.resolve()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
