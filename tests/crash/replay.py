"""Command that shows one crash state: the contents of the disk, and the invariants that its recovery breaks.

    python -m tests.crash.replay WORKLOAD SEED PATH

A failing test or the campaign prints the path: `operation:choices`, and further ones for crashes during recovery.
"""

from __future__ import annotations

import argparse

from tests.crash.disk import Operation, Tree
from tests.crash.explore import parse_path, replayed
from tests.crash.workloads import WORKLOADS

OPERATIONS_SHOWN = 30
BYTES_SHOWN = 60


def lines_of(tree: Tree, indent: str = "") -> list[str]:
    """Return the files and directories of a tree as lines."""
    lines = []
    for name, what in sorted(tree.items()):
        if isinstance(what, dict):
            lines += [f"{indent}{name}/", *lines_of(what, indent + "  ")]
        else:
            shown = "" if name.endswith(".log") else repr(what[:BYTES_SHOWN])
            lines.append(f"{indent}{name}  {len(what)} bytes  {shown}".rstrip())
    return lines


def line_of(operation: Operation) -> str:
    if operation.kind in ("write", "truncate"):
        return f"{operation.kind} node {operation.node} at {operation.position}, {len(operation.data)} bytes"
    if operation.kind == "sync":
        return f"sync node {operation.node}"
    entry = f" (node {operation.entry})" if operation.entry >= 0 else ""
    return f"{operation.kind} {operation.name} {operation.new_name}{entry} in node {operation.node}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("workload", choices=sorted(WORKLOADS))
    arguments.add_argument("seed", type=int)
    arguments.add_argument("path")
    given = arguments.parse_args()
    workload = WORKLOADS[given.workload](given.seed)
    path = parse_path(given.path)
    tree, problems = replayed(workload, path)
    at = path[0].at
    print(f"The last operations before the power went, of {len(workload.operations)}:")
    for number in range(max(0, at - OPERATIONS_SHOWN), at):
        print(f"  {number} {line_of(workload.operations[number])}")
    print("What is left:", *lines_of(tree, "  "), sep="\n")
    print("Violations:" if problems else "No violation.", *problems, sep="\n  ")
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    main()
