"""Files and directories of a log, besides its segments, that the next flush must make durable."""


class UnsyncedPaths:
    """Files and directories, besides segments, that a flush must make durable.

    Each path stays until a flush that began after it was written has ended. A second flush of the same log may end
    before the first one. It must not declare segments durable whose names only the first one syncs.
    """

    def __init__(self) -> None:
        self._flushes = 0
        self._begun_before: dict[str, int] = {}
        """Number of flushes that had begun when a path was written, by path."""

    def add(self, *paths: str) -> None:
        for path in paths:
            self._begun_before[path] = self._flushes

    def discard(self, path: str) -> None:
        """Remove a path that the caller makes durable before the log counts as durable."""
        self._begun_before.pop(path, None)

    def __contains__(self, path: str) -> bool:
        return path in self._begun_before

    def __len__(self) -> int:
        return len(self._begun_before)

    def begin(self) -> tuple[int, set[str]]:
        """Return the number of a flush that begins now, and the paths that it must make durable."""
        self._flushes += 1
        return self._flushes, set(self._begun_before)

    def finish(self, flush: int) -> None:
        """Remove the paths that this flush has made durable."""
        self._begun_before = {path: begun for path, begun in self._begun_before.items() if begun >= flush}
