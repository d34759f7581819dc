"""Number of short seeds of the simulated cluster until each planted bug of its groups is found.

python -m tests.planted.member_seeds                measure all: half an hour; writes member_seeds.json
python -m tests.planted.member_seeds --bug NAME     one bug
"""

from __future__ import annotations

from typing import Final

from tests.planted.member_bugs import MEMBER_BUGS
from tests.planted.seed_search import Search

SECONDS: Final = 20.0
STARTS: Final = (1000, 2000)
MEMBER_SEARCH: Final = Search("cluster", MEMBER_BUGS.bugs, name="member", seconds=SECONDS, starts=STARTS)

if __name__ == "__main__":
    MEMBER_SEARCH.main(__doc__)
