"""All fuzzers with a model, by name."""

from __future__ import annotations

from typing import Final

from tests.fuzz.closest_model import CLOSEST_FUZZER
from tests.fuzz.consumer_group_model import CONSUMER_GROUP_FUZZER, LARGE_CONSUMER_GROUP_FUZZER
from tests.fuzz.controller_model import CONTROLLER_FUZZER
from tests.fuzz.flap_model import FLAP_FUZZER
from tests.fuzz.follower_model import FOLLOWER_FUZZER
from tests.fuzz.fuzzing import Fuzzer
from tests.fuzz.group_model import GROUP_FUZZER
from tests.fuzz.log_model import LOG_FUZZER
from tests.fuzz.migration_model import COOPERATIVE_MIGRATION_FUZZER, MIGRATION_FUZZER
from tests.fuzz.share_group_model import SHARE_GROUP_FUZZER
from tests.fuzz.streams_group_model import LARGE_STREAMS_GROUP_FUZZER, STREAMS_GROUP_FUZZER

FUZZERS: Final[dict[str, Fuzzer]] = {
    fuzzer.name: fuzzer
    for fuzzer in (
        GROUP_FUZZER,
        CONSUMER_GROUP_FUZZER,
        LARGE_CONSUMER_GROUP_FUZZER,
        SHARE_GROUP_FUZZER,
        STREAMS_GROUP_FUZZER,
        LARGE_STREAMS_GROUP_FUZZER,
        MIGRATION_FUZZER,
        COOPERATIVE_MIGRATION_FUZZER,
        LOG_FUZZER,
        FOLLOWER_FUZZER,
        FLAP_FUZZER,
        CONTROLLER_FUZZER,
        CLOSEST_FUZZER,
    )
}
