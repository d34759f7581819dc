"""Print the findings of files or folders: python -m tests.prose kwire/log."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.prose.files import findings_in

if __name__ == "__main__":
    found = [line for name in sys.argv[1:] for line in findings_in(Path(name))]
    print(*found, sep="\n")
    print(f"{len(found)} findings")
    sys.exit(bool(found))
