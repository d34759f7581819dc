"""Number of seeds of the simulated quorum until each planted bug is found.

python -m tests.planted.quorum_seeds                 measure all: hours; writes quorum_seeds.json
python -m tests.planted.quorum_seeds --bug NAME      one bug
"""

from __future__ import annotations

from typing import Final

from tests.planted.quorum_bugs import QUORUM_BUGS
from tests.planted.seed_search import Search

QUORUM_SEARCH: Final = Search("quorum", QUORUM_BUGS.bugs)

if __name__ == "__main__":
    QUORUM_SEARCH.main(__doc__)
