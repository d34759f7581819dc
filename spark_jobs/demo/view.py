"""Live view of the pipeline in a terminal."""

from rich.table import Table

from spark_jobs.demo.samples import Samples


def view(samples: Samples, seconds: float) -> Table:
    """Return the table of this moment."""
    sent = samples.sent[-1][1] if samples.sent else 0
    rate = sent / max(samples.seconds, 0.001)
    shown = Table(
        title=f"{min(samples.seconds, seconds):.0f} of {seconds:.0f} s, {sent} events sent, {rate:.0f} per second",
        caption="Ctrl-C ends early",
    )
    shown.add_column("query")
    for heading in ("batch", "rows", "rows/s", "batch s", "behind", "state rows", "late", "dead letters"):
        shown.add_column(heading, justify="right")
    for each in samples.newest().values():
        shown.add_row(
            each.query,
            str(each.batch),
            str(sum(one.rows for one in samples.taken if one.query == each.query)),
            f"{each.rows_per_second:.0f}",
            f"{each.batch_seconds:.1f}",
            str(each.behind),
            str(each.state_rows),
            str(sum(one.late for one in samples.taken if one.query == each.query)),
            str(sum(one.dead_letters for one in samples.taken if one.query == each.query)),
        )
    return shown
