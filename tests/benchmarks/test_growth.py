"""Verdicts, tables and lines of a growth run, from samples made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.growth.axis import Axis, Samples, from_text, no_samples, order, to_text
from benchmarks.growth.series import Shape, Verdict, fit, growth, judge, medians, unit_of, with_unit
from benchmarks.growth.tables import header, lines_of, missed, ratios, rows, table

SIZES = (10, 100, 1000)
AXIS = Axis("widgets", "widget", SIZES, (10, 1000), lambda _name, _size: {}, ("memory",))


def samples(**by_figure: dict[str, dict[int, list[float]]]) -> Samples:
    found = no_samples()
    for figure, by_broker in by_figure.items():
        for broker, series in by_broker.items():
            found[figure.replace("_", " ") + (", MB" if figure == "memory" else ", us")][broker] = series
    return found


# --- fit


@given(st.floats(1, 1e4), st.floats(1e-3, 1e3))
def test_a_fit_finds_base_and_slope_of_a_line(base: float, each: float) -> None:
    found = fit({size: base + each * size for size in (1, 10, 100, 1000, 10_000)})
    assert found.base == pytest.approx(base, rel=1e-3)
    assert found.each == pytest.approx(each, rel=1e-3)


def test_a_fit_weights_all_sizes_equally() -> None:
    """Ten per cent more at the largest size must not hide the base cost that small sizes show."""
    found = fit({1: 101, 10: 110, 100: 200, 1000: 1100 * 1.1})
    assert found.base == pytest.approx(100, rel=0.02)


def test_a_fit_of_zero_costs_is_zero() -> None:
    assert fit({1: 0.0, 10: 0.0}).each == 0


def test_medians_are_ascending_and_without_empty_sizes() -> None:
    assert list(medians({100: [3, 1, 2], 10: [5], 1: []}).items()) == [(10, 5), (100, 2)]


def test_growth_from_zero_counts_as_none() -> None:
    assert growth({1: 0.0, 10: 5.0}) == 1.0


# --- flat


@pytest.mark.parametrize(
    ("series", "verdict"),
    [
        ({10: [100, 101], 100: [180, 190], 1000: [114, 115]}, Verdict.HOLDS),
        ({10: [100, 101], 1000: [120, 125]}, Verdict.MISSED),
        ({10: [100, 130], 1000: [120, 160]}, Verdict.UNCLEAR),
        ({10: [100], 1000: [50]}, Verdict.HOLDS),
    ],
)
def test_flatness_is_judged(series: dict[int, list[float]], verdict: Verdict) -> None:
    found = judge(series, Shape.FLAT)
    assert found is not None
    assert found.verdict is verdict


def test_one_size_is_not_judged() -> None:
    assert judge({10: [1.0]}, Shape.FLAT) is None
    assert judge({10: [1.0], 20: [2.0]}, Shape.LINEAR) is None
    assert judge({10: [1.0], 20: [200.0]}, Shape.ANY) is None


# --- linear


@given(st.floats(0, 1e4), st.floats(1e-3, 1e3))
def test_a_line_is_linear(base: float, each: float) -> None:
    found = judge({size: [base + each * size] for size in SIZES}, Shape.LINEAR)
    assert found is not None
    assert found.verdict is not Verdict.MISSED


def test_a_square_is_not_linear() -> None:
    found = judge({size: [50 + size**2] for size in SIZES}, Shape.LINEAR)
    assert found is not None
    assert found.verdict is Verdict.MISSED
    assert found.factor == pytest.approx(10, rel=0.02)


def test_a_flat_series_holds_as_linear() -> None:
    found = judge({10: [100], 100: [98], 1000: [102]}, Shape.LINEAR)
    assert found is not None
    assert found.verdict is Verdict.HOLDS


def test_growth_in_the_last_step_alone_is_unclear() -> None:
    found = judge({10: [100], 100: [98], 1000: [300]}, Shape.LINEAR)
    assert found is not None
    assert found.verdict is Verdict.UNCLEAR


# --- tables


def test_rows_have_medians_growth_slope_and_verdict() -> None:
    measured = samples(
        memory={"kwire": {10: [50.4], 100: [54.0], 1000: [90.0]}},
        fetch_CPU={"kwire": {10: [10, 11, 12], 100: [11], 1000: [22, 23]}, "kafka": {10: [50], 1000: [55]}},
    )
    found = rows(AXIS, measured)
    assert {len(cells) for cells in found} == {len(header(AXIS))}
    memory, ours, theirs = found
    assert memory == ["memory, MB", "kwire", "50.4", "54", "90", "1.79", "40 KB", "linear"]
    assert ours[2:6] == ["11", "11", "22.5", "2.05"]
    assert ours[-1] == "not flat: 2.05 times"
    assert theirs[1:6] == ["Apache Kafka 4.3.1", "50", "", "55", "1.10"]


def test_missed_shapes_are_bold_and_listed_for_kwire_only() -> None:
    grows = {10: [10.0], 100: [10.0], 1000: [20.0]}
    measured = samples(fetch_CPU={"kwire": grows}, produce_CPU={"kafka": grows}, fetch_p99={"kwire": grows})
    assert missed(AXIS, measured) == ["fetch CPU, us"]
    assert "| **not flat: 2.00 times** |" in table(AXIS, measured)


def test_ratios_are_of_the_sizes_that_both_have() -> None:
    measured = samples(fetch_CPU={"kwire": {10: [10], 100: [10], 1000: [10]}, "kafka": {10: [40], 1000: [100]}})
    *_, row = ratios(AXIS, measured).splitlines()
    assert row == "| fetch CPU, us | 0.25 | 0.1 |"
    assert not ratios(AXIS, samples(fetch_CPU={"kwire": {10: [10]}}))


def test_flat_lines_are_multiples_of_the_smallest_size() -> None:
    measured = samples(
        memory={"kwire": {10: [50], 1000: [100]}}, fetch_CPU={"kwire": {10: [10], 1000: [12]}, "kafka": {10: [7]}}
    )
    assert lines_of(AXIS, measured, Shape.FLAT) == [("fetch CPU, us", "kwire", {10: 1.0, 1000: 1.2})]
    assert lines_of(AXIS, measured, Shape.LINEAR) == [("memory, MB", "kwire", {10: 50.0, 1000: 100.0})]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0042, "MB", "4.2 KB"),
        (1.5, "s", "1.5 s"),
        (0.0000021, "s", "2.1 us"),
        (2500, "us", "2,500 us"),
        (0, "s", "0 ns"),
    ],
)
def test_small_costs_are_in_a_unit_that_fits(value: float, unit: str, text: str) -> None:
    assert with_unit(value, unit) == text


def test_the_unit_is_behind_the_last_comma() -> None:
    assert unit_of("restart of 1,000 partitions, s") == "s"


# --- axes


def test_figures_may_grow_by_how_their_names_begin() -> None:
    assert AXIS.shape("memory, MB") is Shape.LINEAR
    assert AXIS.shape("produce CPU, us") is Shape.FLAT
    assert AXIS.shape("produce p99, us") is Shape.ANY


def test_an_axis_is_a_row_by_its_first_word() -> None:
    session = Axis("topics in a session", "topic", SIZES, (), lambda _name, _size: {})
    assert session.row == "growth-topics"
    assert session.sizes_of("kwire") == SIZES
    assert session.sizes_of("kafka") == ()


def test_an_axis_up_to_a_size_leaves_out_larger_ones() -> None:
    assert AXIS.up_to(0) == AXIS
    short = AXIS.up_to(100)
    assert short.sizes_of("kwire") == (10, 100)
    assert short.sizes_of("kafka") == (10,)


def test_rounds_alternate_and_kafka_is_measured_once() -> None:
    once = Axis("gadgets", "gadget", (1, 2), (), lambda _name, _size: {}, rounds=1)
    first, second = (
        [(axis.name, size, name) for axis, size, name in order([AXIS, once], number, ("kwire", "kafka"))]
        for number in (1, 2)
    )
    assert first == [
        ("widgets", 10, "kwire"),
        ("widgets", 10, "kafka"),
        ("widgets", 100, "kwire"),
        ("widgets", 1000, "kwire"),
        ("widgets", 1000, "kafka"),
        ("gadgets", 1, "kwire"),
        ("gadgets", 2, "kwire"),
    ]
    assert second == [("widgets", 1000, "kwire"), ("widgets", 100, "kwire"), ("widgets", 10, "kwire")]


def test_samples_are_the_same_when_read_back() -> None:
    measured = {"widgets": samples(memory={"kwire": {10: [1.5, 2.0]}}, fetch_CPU={"kafka": {1000: [3.0]}})}
    text = to_text(measured)
    assert from_text(text) == measured
    assert len(text.splitlines()) == 6
    assert from_text(to_text({})) == {}
