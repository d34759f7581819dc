"""Scene of a story: one group whose members go on while the brokers are exchanged."""

from compat_tests.exchanged_groups.asking import Asker


class Scene:
    """Group with its members. The methods are called in their order here."""

    groups: tuple[str, ...] = ()

    def __init__(self, asker: Asker) -> None:
        self.asker = asker

    def begin(self) -> None:
        """Create the group on the first broker."""

    def check_loaded(self) -> None:
        """Check the group right after the next broker has loaded it."""

    def resume(self) -> None:
        """Go on after the broker was exchanged."""

    def leave_open(self) -> None:
        """Begin some work that the next broker will finish."""
