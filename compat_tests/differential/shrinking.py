"""Reproduction of a difference: the shortest beginning of the script that contains it."""

from compat_tests.differential.comparing import Difference


def shortest(seed: int, difference: Difference) -> str:
    """Return the command for it: scripts of the same seed begin with the same steps, whatever their length."""
    return f"python -m compat_tests.differential --seed {seed} --count {difference.step.number + 1}"
