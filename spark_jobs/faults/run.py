"""Campaign "exactly once under faults": streams with tables and topics, while drivers, workers and brokers are killed.

    python -m spark_jobs.faults.run --rounds 100 --seed 1 --directory somewhere

Each round takes the next seed, which determines its faults. Completed rounds are recorded in the directory, so that an
interrupted campaign continues there. Directories of rounds with a finding are kept. At the end the campaign appends a
line to docs/evidence/spark.jsonl. With --plant, a bug is planted, and the campaign ends at the first finding.
"""

import argparse
import json
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from compat_tests.harness.install import install
from compat_tests.harness.reference import class_path
from spark_jobs.faults.plants import PLANTS
from spark_jobs.faults.play import Result, Stage, play, stage
from spark_jobs.faults.rounds import FAULTS, Round, planned
from spark_jobs.run import require_java
from tests.campaign.evidence import Evidence, current_commit

EVIDENCE = Evidence(
    name="spark",
    title="Spark: exactly once under faults",
    about="each round disturbs streams from a topic into tables and topics, and compares these with what was committed",
    columns=("commit", "broker", "seeds", "seconds", "rounds", "records", "faults", "outcome"),
    counted="rounds",
    sound=r"^nothing lost",
)


class Campaign:
    """All rounds of one command."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._directory: Path = given.directory or Path(tempfile.mkdtemp(prefix="kwire-spark-faults-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        self._noted = self._directory / f"rounds-{given.broker}.jsonl"
        self.results = [Result(**json.loads(line)) for line in self._lines()]

    def _lines(self) -> list[str]:
        return self._noted.read_text().splitlines() if self._noted.exists() else []

    def run(self) -> None:
        """Play the rounds that are not done, those with executors last, because they have another driver.

        After an error of the campaign itself, brokers and drivers start anew.
        """
        done = {each.seed for each in self.results}
        seeds = [seed for seed in range(self._given.seed, self._given.seed + self._given.rounds) if seed not in done]
        plans = sorted(map(self._plan, seeds), key=lambda plan: plan.has_executors)
        while plans:
            with stage(self._directory, self._given.broker, self._given.plant) as on:
                while plans:
                    result = self._play(plans.pop(0), on)
                    if result.findings and self._given.plant:
                        return
                    if result.error:
                        break

    def _plan(self, seed: int) -> Round:
        return planned(seed, self._given.fault, broker=self._given.broker)

    def _play(self, plan: Round, on: Stage) -> Result:
        directory = self._directory / f"round-{plan.seed}"
        shutil.rmtree(directory, ignore_errors=True)
        try:
            result = play(plan, on, directory)
        except (Exception, SystemExit):  # noqa: BLE001 the next rounds do not depend on this one
            result = Result(seed=plan.seed, faults=[each.name for each in plan.faults], error=traceback.format_exc())
        if not result.findings and not result.error:
            shutil.rmtree(directory, ignore_errors=True)
        self._note(result)
        return result

    def _note(self, result: Result) -> None:
        self.results.append(result)
        with self._noted.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        said = "; ".join(result.findings) or result.error or "nothing lost, nothing repeated"
        cells = (result.seed, ", ".join(result.faults), f"fired {len(result.fired)}", f"{result.seconds:.0f} s", said)
        print(*cells, sep=" | ", flush=True)

    @property
    def fired(self) -> Counter[str]:
        return Counter(name for each in self.results for name in each.fired)

    @property
    def bad(self) -> list[Result]:
        return [each for each in self.results if each.findings or each.error]

    def clean(self) -> None:
        """Remove a directory that the user has not chosen, unless a round in it has a finding."""
        if self._given.directory is None and not self.bad:
            shutil.rmtree(self._directory, ignore_errors=True)

    def note_evidence(self, commit: str) -> None:
        seeds = [each.seed for each in self.results]
        EVIDENCE.append(
            commit,
            self._given.broker,
            f"{min(seeds)} to {max(seeds)}",
            f"{sum(each.seconds for each in self.results):.0f}",
            len(self.results),
            sum(each.records for each in self.results),
            ", ".join(f"{name} {self.fired[name]}" for name in FAULTS),
            "; ".join(f"seed {each.seed}: {(each.findings or ['error'])[0]}" for each in self.bad)
            or "nothing lost, nothing repeated",
        )


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--broker", choices=("kwire", "kafka"), default="kwire")
    arguments.add_argument("--fault", action="append", default=[], choices=sorted(FAULTS), help="instead of the seed's")
    arguments.add_argument("--plant", choices=sorted(PLANTS), help="a bug that must be found")
    arguments.add_argument("--directory", type=Path, help="where rounds are kept; by default a new temporary one")
    arguments.add_argument("--no-evidence", action="store_true", help="write nothing into docs/evidence")
    given = arguments.parse_args()
    require_java()
    if given.broker == "kafka":
        install("kafka")
        class_path()
    commit, begun = current_commit(), time.monotonic()
    campaign = Campaign(given)
    campaign.run()
    if not (given.no_evidence or given.plant or given.fault):
        campaign.note_evidence(commit)
    campaign.clean()
    print(*(f"{name}: {campaign.fired[name]}" for name in FAULTS), sep="\n")
    print(f"{len(campaign.results)} rounds, {len(campaign.bad)} with a finding, {time.monotonic() - begun:.0f} s")
    raise SystemExit(bool(campaign.bad) != bool(given.plant))


if __name__ == "__main__":
    main()
