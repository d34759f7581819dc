"""Which files and directories of a log, besides its segments, the next flush has to make durable."""


class UnsyncedPaths:
    """Files and directories besides segments that a flush has to make durable.

    Each stays until a flush that began after it was written has ended: a second flush of the same log, which may end
    before the first one, must not tell of segments whose names only the first one syncs.
    """

    def __init__(self) -> None:
        self._flushes = 0
        self._begun_before: dict[str, int] = {}
        """How many flushes had begun when a path was written."""

    def add(self, *paths: str) -> None:
        for path in paths:
            self._begun_before[path] = self._flushes

    def discard(self, path: str) -> None:
        """Leave a path to somebody else, who makes it durable before anything says that this log is."""
        self._begun_before.pop(path, None)

    def __contains__(self, path: str) -> bool:
        return path in self._begun_before

    def __len__(self) -> int:
        return len(self._begun_before)

    def begin(self) -> tuple[int, set[str]]:
        """The number of a flush that begins now, and what it is to make durable."""
        self._flushes += 1
        return self._flushes, set(self._begun_before)

    def finish(self, flush: int) -> None:
        """Forget what that flush has made durable."""
        self._begun_before = {path: begun for path, begun in self._begun_before.items() if begun >= flush}
