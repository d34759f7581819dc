"""Tables and lines of a growth run: medians by size, the fitted cost of an element, verdicts, ratios."""

from collections.abc import Mapping, Sequence

from benchmarks.growth.axis import Axis, Samples
from benchmarks.growth.series import Judgement, Shape, Verdict, fit, growth, judge, medians, unit_of, with_unit
from benchmarks.report import TITLES, number

Lines = list[tuple[str, str, dict[int, float]]]
"""(figure, broker, size -> cost)."""


def header(axis: Axis) -> list[str]:
    return ["figure", "broker", *(f"{size:,}" for size in axis.sizes), "largest / smallest", f"each {axis.element}", ""]


def rows(axis: Axis, samples: Samples) -> list[list[str]]:
    """Return a row for each figure and broker: medians by size, growth, fitted cost of an element, verdict."""
    return [
        _row(axis, figure, broker, series)
        for figure, by_broker in samples.items()
        for broker, series in by_broker.items()
    ]


def _row(axis: Axis, figure: str, broker: str, series: Mapping[int, Sequence[float]]) -> list[str]:
    points = medians(series)
    costs = [number(points[size]) if size in points else "" for size in axis.sizes]
    each = with_unit(fit(points).each, unit_of(figure)) if len(points) > 1 else ""
    shape = axis.shape(figure)
    judgement = judge(series, shape)
    return [figure, TITLES[broker], *costs, f"{growth(points):.2f}", each, verdict_text(shape, judgement)]


def verdict_text(shape: Shape, judgement: Judgement | None) -> str:
    """Return in a few words which growth is permitted and which was measured."""
    if judgement is None:
        return ""
    if judgement.verdict is Verdict.HOLDS:
        return shape.value
    if judgement.verdict is Verdict.UNCLEAR:
        return f"not {shape.value}, within noise"
    if shape is Shape.FLAT:
        return f"not flat: {judgement.factor:.2f} times"
    return f"not linear: in the last step {judgement.factor:.2f} times as fast as the size"


def is_bad(verdict: str) -> bool:
    return verdict.startswith("not") and "noise" not in verdict


def is_met(axis: Axis, figure: str, series: Mapping[int, Sequence[float]]) -> bool:
    judgement = judge(series, axis.shape(figure))
    return judgement is None or judgement.verdict is not Verdict.MISSED


def missed(axis: Axis, samples: Samples) -> list[str]:
    """Return kwire's figures that miss the bound of a flat or linear cost."""
    return [
        figure
        for figure, by_broker in samples.items()
        if not all(is_met(axis, figure, series) for broker, series in by_broker.items() if broker != "kafka")
    ]


def table(axis: Axis, samples: Samples) -> str:
    """Return the axis's table in Markdown; missed bounds are bold."""
    titles = header(axis)
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for cells in rows(axis, samples):
        *plain, verdict = cells
        marked = f"**{verdict}**" if is_bad(verdict) else verdict
        lines.append("| " + " | ".join([*plain, marked]) + " |")
    return "\n".join(lines)


def ratios(axis: Axis, samples: Samples) -> str:
    """Return kwire's median divided by Kafka's, for each size at which both were measured."""
    sizes = axis.sizes_of("kafka")
    lines = [
        "| kwire / Apache Kafka 4.3.1 | " + " | ".join(f"{size:,}" for size in sizes) + " |",
        "|" + "---|" * (len(sizes) + 1),
    ]
    for figure, by_broker in samples.items():
        ours, theirs = (medians(by_broker.get(name, {})) for name in ("kwire", "kafka"))
        cells = [number(ours[size] / theirs[size]) if ours.get(size) and theirs.get(size) else "" for size in sizes]
        if any(cells):
            lines.append(f"| {figure} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else ""


def lines_of(axis: Axis, samples: Samples, shape: Shape) -> Lines:
    """Return the lines of one panel: flat figures as multiples of their smallest size, linear ones as they are."""
    found: Lines = []
    for figure, by_broker in samples.items():
        if axis.shape(figure) is not shape:
            continue
        for broker, series in by_broker.items():
            points = medians(series)
            least = points[min(points)] if shape is Shape.FLAT else 1.0
            if len(points) > 1 and least:
                found.append((figure, broker, {size: cost / least for size, cost in points.items()}))
    return found
