"""How to see a difference again: the shortest beginning of the script that contains it."""

from compat_tests.differential.comparing import Difference


def shortest(seed: int, difference: Difference) -> str:
    """A script of the same seed begins alike, whatever its length."""
    return f"python -m compat_tests.differential --seed {seed} --count {difference.step.number + 1}"
