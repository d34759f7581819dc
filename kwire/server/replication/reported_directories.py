"""Log directories as heartbeats report them: those that failed, and those that get no new replicas.

A directory of the setting cordoned.log.dirs is cordoned (KIP-1066): the log manager creates no new log there. The
controller assigns no replica to a broker that has cordoned all of its directories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kwire.cluster.configs.settings import CurrentSettings, setting
from kwire.cluster.metadata.features import METADATA_VERSION, METADATA_VERSION_4_3_IV0
from kwire.cluster.metadata.image import MetadataImage
from kwire.log.log_directories import LogDirectories
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


class ReportedDirectories:
    """State of the log directories; the cordoned ones are kept equal to the setting."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        settings: CurrentSettings,
        directories: LogDirectories,
        directory_ids: Mapping[str, UUID],
    ) -> None:
        """`directory_ids` are the ids of the log directories by path."""
        self._config = config
        self._settings = settings
        self._directories = directories
        self._directory_ids = directory_ids
        self.settings_changed()

    def settings_changed(self) -> bool:
        """Apply the setting to the log directories; return True if other directories are cordoned now."""
        settings = self._settings.of(DirectorySettings)
        cordoned, given = settings.cordoned, settings.log_dirs or settings.log_dir
        paths = {path for name, path in zip(given, self._config.log_dirs, strict=True) if name in cordoned}
        has_changed = False
        for directory in self._directories:
            is_cordoned = ALL in cordoned or directory.path in paths
            has_changed = has_changed or is_cordoned != directory.is_cordoned
            directory.is_cordoned = is_cordoned
        return has_changed

    def offline(self) -> list[UUID]:
        """Return the ids of the failed directories; none if all have failed."""
        failed = [each.path for each in self._directories if each.is_offline]
        return self._ids(failed) if len(failed) < len(self._directories) else []

    def cordoned(self, image: MetadataImage) -> list[UUID] | None:
        """Return the ids of the cordoned directories; None if the metadata cannot store them."""
        if not has_cordoned_directories(image):
            return None
        return self._ids(each.path for each in self._directories if each.is_cordoned)

    def _ids(self, paths: Iterable[str]) -> list[UUID]:
        return [self._directory_ids[path] for path in paths if path in self._directory_ids]
