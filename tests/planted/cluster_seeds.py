"""Number of seeds of the simulated cluster until each planted bug is found.

python -m tests.planted.cluster_seeds                measure all: an hour; writes cluster_seeds.json
python -m tests.planted.cluster_seeds --bug NAME     one bug
"""

from __future__ import annotations

from typing import Final

from tests.planted.cluster_bugs import CLUSTER_BUGS
from tests.planted.seed_search import Search

CLUSTER_SEARCH: Final = Search("cluster", CLUSTER_BUGS.bugs)

if __name__ == "__main__":
    CLUSTER_SEARCH.main(__doc__)
