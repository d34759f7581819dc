"""Report of a demo as one HTML page, with its plots in it."""

import html
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from matplotlib.figure import Figure

from spark_jobs.demo.samples import Sample, Samples

STYLE = """
body { font-family: system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .3rem .8rem; border-bottom: 1px solid #ddd }
td:not(:first-child), th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto }
"""
Row = Sequence[object]


def report(path: Path, samples: Samples, facts: Sequence[tuple[str, object]], results: Sequence[Row]) -> None:
    """Write the page. `results` are rows of (table or topic, rows, expected rows)."""
    body = [
        "<h1>Pipeline on kwire</h1>",
        f"<p>{html.escape(datetime.now(UTC).strftime('%Y-%m-%d %H:%M'))} UTC</p>",
        _table(("", "value"), facts),
        "<h2>Results</h2>",
        _table(("table or topic", "rows", "expected"), results),
        "<h2>Rows per second</h2>",
        _plot(samples, lambda each: each.rows_per_second, "rows per second"),
        "<h2>Offsets behind the topic</h2>",
        _plot(samples, lambda each: float(each.behind), "offsets"),
        "<h2>Duration of a batch</h2>",
        _plot(samples, lambda each: each.batch_seconds, "seconds"),
        "<h2>Rows of state</h2>",
        _plot(samples, lambda each: float(each.state_rows), "rows"),
    ]
    text = "\n".join(body)
    path.write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Pipeline on kwire</title>'
        f"<style>{STYLE}</style></head><body>\n{text}\n</body></html>\n",
        encoding="utf-8",
    )


def _table(headings: Sequence[str], rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{html.escape(each)}</th>" for each in headings)
    lines = ["".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in rows]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _plot(samples: Samples, value: Callable[[Sample], float], unit: str) -> str:
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots()
    for query in samples.newest():
        own = [each for each in samples.taken if each.query == query]
        axes.plot([each.seconds for each in own], [value(each) for each in own], marker=".", label=query)
    axes.set_xlabel("seconds")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    text = drawn.getvalue()
    return text[text.index("<svg") :]
