"""Campaign of coverage-guided fuzzing of all parsers, with atheris; the inputs are kept in tests/fuzz/corpus.

    python -m tests.campaign.parsers --seconds 180 --seed 1
    python -m tests.campaign.parsers --seconds 60 --only files --only "record batches"

Each target runs for that many seconds, from its kept inputs and its seeds on. Afterwards its inputs are minimised and
checked against the limits of steps and memory. An input that breaks the contract is kept as well, so that `make test`
fails until the parser is mended.
"""

from __future__ import annotations

import argparse
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.parsers import coverage_guided

if __name__ == "__main__":
    coverage_guided.start()

import pytest

from tests.campaign.evidence import Evidence, current_commit
from tests.fuzz.parsers.catalogue import GROUPS, TARGETS
from tests.fuzz.parsers.corpus import minimised, read_group, write_group
from tests.fuzz.parsers.coverage_guided import fuzz
from tests.fuzz.parsers.measuring import Feature, check_limits, features_of
from tests.fuzz.parsers.target import Target

EVIDENCE = Evidence(
    name="parsers",
    title="Coverage-guided fuzzing of parsers",
    about="a run is one input of atheris; each target has the same time; inputs are those that are kept",
    columns=("commit", "group", "seed", "targets", "seconds", "runs", "inputs", "outcome"),
    counted="runs",
    sound=r"^no fault",
)
SHOWN_MAX = 200


def run_target(target: Target, kept: list[bytes], *, seconds: int, seed: int) -> tuple[list[bytes], int, list[str]]:
    """Fuzz one target; return its inputs, the number of runs, and its faults."""
    found = fuzz(target, {*kept, *target.seeds()}, seconds=seconds, seed=seed)
    sound: dict[bytes, frozenset[Feature]] = {}
    faults: dict[bytes, str] = {}
    for data in found.inputs:
        _measure(target, data, features_of, sound, faults)
    inputs = minimised(sound)
    for data in [*found.faults, *inputs]:
        _measure(target, data, check_limits, {}, faults)
        if data in found.faults:  # perhaps one of time or memory alone
            faults.setdefault(data, found.log[-SHOWN_MAX:])
    print(f"{target.name}: {found.runs} runs in {found.seconds:.0f} s, {len(inputs)} inputs", flush=True)
    for data, reason in list(faults.items())[:3]:
        print(f"    {reason}\n    {data!r}", flush=True)
    kept_faults = sorted(faults, key=len)[:1]
    return [*inputs, *kept_faults], found.runs, [f"{target.name}: {reason[:SHOWN_MAX]}" for reason in faults.values()]


def _measure(
    target: Target,
    data: bytes,
    measure: Callable[[Target, bytes], frozenset[Feature]],
    sound: dict[bytes, frozenset[Feature]],
    faults: dict[bytes, str],
) -> None:
    """Add an input to the sound ones with what it covers, or to the faults with the reason."""
    try:
        sound[data] = measure(target, data)
    except Exception as error:  # noqa: BLE001 any exception is a fault
        where = traceback.extract_tb(error.__traceback__)[-1]
        faults[data] = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"


def run_group(group: str, names: set[str], given: argparse.Namespace, commit: str) -> bool:
    """Fuzz the targets of a group, keep their inputs, and append a row of evidence; return True without a fault."""
    kept = {} if given.dry else read_group(group)
    chosen = [target for target in GROUPS[group] if target.name in names]
    total, faults = 0, []
    for target in chosen:
        inputs, runs, found = run_target(target, kept.get(target.name, []), seconds=given.seconds, seed=given.seed)
        kept[target.name] = inputs
        total += runs
        faults += found[:1]
        if not given.dry:
            write_group(group, kept)
    count = sum(len(kept[target.name]) for target in chosen)
    if chosen and not given.dry and not given.no_evidence:
        outcome = "; ".join(faults[:3]) or "no fault"
        EVIDENCE.append(commit, group, given.seed, len(chosen), given.seconds, f"{total:,}", count, outcome)
    return not faults


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=180, help="time of each target")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", action="append", default=[], help="a target or a group; may be repeated")
    arguments.add_argument("--planted-bug", help="a bug of tests/planted, to see that it is found; keeps nothing")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    given.dry = given.planted_bug is not None
    if given.planted_bug:
        from tests.planted.parser_bugs import PARSER_BUGS

        PARSER_BUGS.bugs[given.planted_bug].plant(pytest.MonkeyPatch())
    only = set(given.only)
    names = {name for name, (group, _) in TARGETS.items() if not only or name in only or group in only}
    logging.disable(logging.CRITICAL)
    commit = current_commit()
    sound = [run_group(group, names, given, commit) for group in GROUPS]
    raise SystemExit(not all(sound))


if __name__ == "__main__":
    main()
