"""Verdict on a case: it passes if the victim has no error and short latencies, without fences or leader changes."""

import math

BOUND_MS = 50.0
"""Bound for the 99th percentile of the victim's latency."""
CONTROL = "kafka"
"""Apache Kafka is the control: its results are evidence only. Some attacks exhaust its heap or move its leaders."""
ALLOWED_MS: dict[str, tuple[float, str]] = {}
"""Attack to (bound, reason), for cases that kwire cannot improve; not for noise."""
TRIES = 3
"""Runs of a case over its bound, because other processes of the machine also delay the victim; the median counts."""
NOISE_FACTOR = 4
"""A case that exceeds its bound by more than this factor is not repeated: other processes cannot explain it."""
RETRIES_MAX = 40
"""Repeated runs of all cases together, so that the row ends in time."""
CONNECTIONS = (1, 20)
FAULTS = ("errors", "leader_changes", "fenced")


def params(pytest, attacks):
    """Return the parameters of a test, one for each attack."""
    return [pytest.param(each, id=each.name, marks=[pytest.mark.short] * each.is_short) for each in attacks]


def p99_ms(figures):
    return max(figures["heartbeat_ms"]["p99"], figures["produce_ms"]["p99"])


class Judge:
    """Runner that repeats a case as often as its results require, and returns the complaints."""

    def __init__(self, broker):
        self.broker = broker
        self.retries = 0

    @staticmethod
    def bound_ms(attack):
        return max(BOUND_MS, ALLOWED_MS.get(attack.name, (BOUND_MS, ""))[0])

    def judge(self, cases, attack, note):
        """Run an attack from one connection and from many, record the figures, and return the complaints."""
        complaints = []
        for connections in CONNECTIONS:
            figures = self.figures(cases, attack, connections)
            note(figures, self.problems(attack, figures))
            complaints += [f"{connections} connections: {each}" for each in self.complaints(attack, figures)]
        return complaints

    def figures(self, cases, attack, connections):
        """Return the figures of the first run if it is within the bound, else of the median run. Kafka has one run.

        Errors, fences and leader changes count in whichever run they happen.
        """
        runs = [cases.run(attack, connections)]
        bound_ms = self.bound_ms(attack)
        if self.broker != CONTROL and bound_ms <= p99_ms(runs[0]) < NOISE_FACTOR * bound_ms:
            while len(runs) < TRIES and self.retries < RETRIES_MAX:
                self.retries += 1
                runs.append(cases.run(attack, connections))
        median = sorted(runs, key=p99_ms)[len(runs) // 2]
        together = {
            name: [each for run in runs for each in run[name]] for name in ("errors", "leader_changes", "fenced")
        }
        return {**median, **together, "runs": len(runs)}

    def complaints(self, attack, figures):
        """Return the complaints about the tested broker; for the control, only that the attack did not reach it."""
        if self.broker == CONTROL:
            return [] if figures["sent_bytes"] or figures["errors"] else ["nothing was sent"]
        return self.problems(attack, figures)

    def problems(self, attack, figures):
        found = list(figures["errors"])
        if figures["closed"]:
            found.append(f"the request is not legal: {figures['closed']} connections were closed")
        if figures["leader_changes"]:
            found.append(f"leaders changed: {figures['leader_changes'][:3]}")
        if figures["fenced"]:
            found.append(f"brokers {figures['fenced']} are fenced")
        if math.inf > p99_ms(figures) >= self.bound_ms(attack):
            found.append(f"p99 {p99_ms(figures)} ms; {figures['held']}")
        if figures["recovery_seconds"] is None:
            found.append("the broker went on with the attack for more than 10 s after its end")
        return found
