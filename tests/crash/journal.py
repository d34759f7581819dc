"""States that a power cut may leave after recorded operations.

A journal repeats the operations on files and directories in memory, which keep their changes since the last fsync. A
state selects the changes that reached the disk before the power cut, as kwire.simulation.power_cut describes it.
Directories down to some depth may have a free order of names.

Files and directories are independent of each other. An fsync of a file makes its contents and size durable, but not the
entry that names it; XFS and ext4 usually do more. A rename over a name is atomic. All data after a power cut is
durable.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from kwire.simulation.files import DirectoryNode, FileNode
from kwire.simulation.power_cut import PAGE_BYTES, SECTOR_BYTES, Choices, Entry
from tests.crash.disk import Operation, Tree, grow, tree_of

__all__ = ["PAGE_BYTES", "SECTOR_BYTES", "Choices", "Journal"]


class Journal:
    """Journal of operations that start from a durable tree."""

    def __init__(self, tree: Tree) -> None:
        self._root = DirectoryNode()
        self._nodes = list(grow(self._root, tree))
        """Nodes by their numbers."""

    def replay(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._replay(operation)

    def _replay(self, operation: Operation) -> None:
        node = self._nodes[operation.node]
        if operation.kind == "sync":
            node.sync()
        elif isinstance(node, DirectoryNode):
            self._change(node, operation)
        elif operation.kind == "write":
            node.append(operation.data)
        else:
            node.truncate(operation.position)

    def _change(self, directory: DirectoryNode, operation: Operation) -> None:
        match operation.kind:
            case "create" | "make":
                node = FileNode() if operation.kind == "create" else DirectoryNode()
                self._nodes.append(node)
                directory.change(Entry("", operation.name, node))
            case "rename":
                directory.change(Entry(operation.name, operation.new_name, self._nodes[operation.entry]))
            case _:
                directory.change(Entry(operation.name, "", None))

    # --- states

    def state(self, choices: Choices, *, free_order: int = 0) -> Tree:
        """Return the state after a power cut now; directories down to the depth `free_order` have a free order of
        names.
        """
        return tree_of(self._root.after_cut(choices, free_levels=free_order))

    def states(self, *, limit: int, seed: int, free_order: int = 0) -> Iterator[tuple[list[int], Tree]]:
        """Yield (choices, state) of all states if they are at most `limit`, else of that many random ones."""
        found = []
        for state in self._all(free_order):
            found.append(state)
            if len(found) > limit:
                break
        if len(found) <= limit:
            yield from found
            return
        random_source = random.Random(seed)
        for _ in range(limit):
            choices = Choices(random_source=random_source)
            tree = self.state(choices, free_order=free_order)
            yield choices.taken, tree

    def _all(self, free_order: int) -> Iterator[tuple[list[int], Tree]]:
        given: list[int] = []
        while True:
            choices = Choices(given)
            tree = self.state(choices, free_order=free_order)
            yield choices.taken, tree
            index = len(choices.taken) - 1
            while index >= 0 and choices.taken[index] + 1 >= choices.options[index]:
                index -= 1
            if index < 0:
                return
            given = [*choices.taken[:index], choices.taken[index] + 1]
