"""Random cases by seed, compared with Kafka's own classes in chunks."""

SHOWN = 3


def check_no_differences(differences, first_seed, count, what, *, chunk):
    """Assert that differences(seeds) yields no (seed, difference) for `count` seeds from `first_seed` on.

    One call compares at most `chunk` seeds.
    """
    found = []
    for first in range(first_seed, first_seed + count, chunk):
        found += differences(range(first, min(first + chunk, first_seed + count)))
    shown = "\n".join(f"seed {seed}: {difference}" for seed, difference in found[:SHOWN])
    assert not found, f"{len(found)} differences in {what} of {count} seeds\n{shown}"
