"""Log managers for the directories of a test."""

from __future__ import annotations

from kwire.log.config import LogConfig
from kwire.log.log_manager import LogManager
from tests.log.support import surroundings

CONFIG = LogConfig(file_delete_delay_ms=60_000)


def config_of(topic):
    return CONFIG


def managed(tmp_path, world=None, count=1):
    return LogManager([str(tmp_path / f"d{index}") for index in range(count)], world or surroundings())
