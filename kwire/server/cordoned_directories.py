"""Cordoned log directories, which get no new replicas: cordoned.log.dirs (KIP-1066).

The log manager creates no new log there. Heartbeats report the cordoned directories to the controller, which assigns no
replica to a broker that has cordoned all of its directories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.cluster.image import MetadataImage
from kwire.cluster.settings import CurrentSettings, setting
from kwire.log.log_manager import LogManager
from kwire.server.settings.config import BrokerConfig

ALL = "*"


def has_cordoned_directories(image: MetadataImage) -> bool:
    """Return True if the cluster's metadata can store which log directories are cordoned."""
    return image.features.get(METADATA_VERSION, 0) >= METADATA_VERSION_4_3_IV0


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySettings:
    """Log directories by the names in the settings."""

    cordoned: list[str] = setting("cordoned.log.dirs")
    log_dirs: list[str] | None = setting("log.dirs")
    log_dir: list[str] = setting("log.dir")


class CordonedDirectories:
    """Cordoned state of the log directories, kept equal to the setting."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        settings: CurrentSettings,
        logs: LogManager,
        directory_ids: Mapping[str, UUID],
        changed: Callable[[], None],
    ) -> None:
        """`directory_ids` are the ids of the log directories by path; `changed` is called after others are cordoned."""
        self._config = config
        self._settings = settings
        self._logs = logs
        self._directory_ids = directory_ids
        self._changed = changed
        self.settings_changed()

    def settings_changed(self) -> None:
        """Apply the setting to the log directories."""
        settings = self._settings.of(DirectorySettings)
        cordoned, given = settings.cordoned, settings.log_dirs or settings.log_dir
        paths = {path for name, path in zip(given, self._config.log_dirs, strict=True) if name in cordoned}
        has_changed = False
        for directory in self._logs.directories:
            is_cordoned = ALL in cordoned or directory.path in paths
            has_changed = has_changed or is_cordoned != directory.is_cordoned
            directory.is_cordoned = is_cordoned
        if has_changed:
            self._changed()

    def told(self, image: MetadataImage) -> list[UUID] | None:
        """Return the ids of the cordoned directories for a heartbeat; None if the controller could not store them."""
        if not has_cordoned_directories(image):
            return None
        known = self._directory_ids
        return [known[each.path] for each in self._logs.directories if each.is_cordoned and each.path in known]
