"""Initial feature levels of a new cluster: the defaults, and the levels given on a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kwire.cluster.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FORMATTED,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_4_0_IV3,
    METADATA_VERSION_4_3_IV0,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED,
)

RELEASE_NAMES: Mapping[int, str] = {
    METADATA_VERSION_4_0_IV3: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    METADATA_VERSION_4_3_IV0: "4.3-IV0",
}
RELEASES: Mapping[str, int] = {
    **{name.partition("-")[0]: level for level, name in RELEASE_NAMES.items()},
    **{name: level for level, name in RELEASE_NAMES.items()},
}
"""Level of metadata.version by release name: 4.2 means its last level; for 4.3.1 the first two numbers count."""
SINCE: Mapping[str, int] = {ELIGIBLE_LEADER_REPLICAS_VERSION: 26, SHARE_VERSION: 28, STREAMS_VERSION: 29}
"""First metadata.version with which a feature is on by default, if later than the lowest supported one."""
_LEVEL_MIN, _LEVEL_MAX = -(2**15), 2**15 - 1


class InvalidFeatureError(ValueError):
    """A cluster cannot begin with a feature or level; the message says why."""


def metadata_version_of(release: str) -> int:
    """Return the metadata.version of a release such as 4.3-IV0, 4.3 or 4.3.1. Raises InvalidFeatureError."""
    level = RELEASES.get(release, RELEASES.get(".".join(release.split(".")[:2])))
    if level is None:
        known = ", ".join(RELEASE_NAMES.values())
        raise InvalidFeatureError(f"Unknown metadata.version '{release}'. Supported metadata.version are: {known}")
    return level


def parse_levels(items: Sequence[str]) -> dict[str, int]:
    """Return levels by name from name=level items; the last item of a name wins. Raises InvalidFeatureError."""
    levels: dict[str, int] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals:
            raise InvalidFeatureError(f"Can't parse feature=level string {item}: equals sign not found.")
        try:
            level = int(text)
        except ValueError:
            level = _LEVEL_MAX + 1
        if not _LEVEL_MIN <= level <= _LEVEL_MAX:
            raise InvalidFeatureError(f"Can't parse feature=level string {item}: unable to parse {text} as a short.")
        levels[name.strip()] = level
    return levels


def initial_levels(asked: Mapping[str, int], release: int | None, *, is_dynamic: bool) -> dict[str, int]:
    """Return the initial levels above 0, metadata.version first. Raises InvalidFeatureError.

    `is_dynamic` is True if the quorum's voters are not configured; it decides about kraft.version.
    """
    levels = {name: level for name, level in asked.items() if name != METADATA_VERSION}
    for name in levels:
        if name not in SUPPORTED:
            names = ", ".join(sorted(SUPPORTED.keys() - {METADATA_VERSION}))
            raise InvalidFeatureError(f"Unsupported feature: {name}. Supported features are: {names}")
    _check_kraft_version(levels.pop(KRAFT_VERSION, None), is_dynamic=is_dynamic)
    for name, level in levels.items():
        least, most = SUPPORTED[name]
        if not least <= level <= most:
            raise InvalidFeatureError(f"No feature:{name} with feature level {level}; levels here: {least} to {most}")
    metadata_version = _metadata_version(asked.get(METADATA_VERSION), release)
    defaults = {name: level for name, level in FORMATTED.items() if metadata_version >= SINCE.get(name, 0)}
    others = {name: level for name, level in (defaults | levels).items() if name != METADATA_VERSION}
    return {METADATA_VERSION: metadata_version} | {name: others[name] for name in sorted(others) if others[name] > 0}


def _metadata_version(asked: int | None, release: int | None) -> int:
    if asked is not None and release is not None:
        raise InvalidFeatureError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    if asked is not None and asked not in RELEASE_NAMES:
        least, most = SUPPORTED[METADATA_VERSION]
        raise InvalidFeatureError(
            f"No MetadataVersion with feature level {asked}. Valid feature levels are from {least} to {most}."
        )
    return asked or release or FORMATTED[METADATA_VERSION]


def _check_kraft_version(asked: int | None, *, is_dynamic: bool) -> None:
    flags = "--standalone, --initial-controllers, or --no-initial-controllers"
    if asked == 0 and is_dynamic:
        raise InvalidFeatureError(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags {flags} is used. "
            "For dynamic controllers support, try removing the --feature flag for kraft.version."
        )
    if asked is not None and asked != 0 and not is_dynamic:
        raise InvalidFeatureError(
            f"Cannot set kraft.version to {asked} unless controller.quorum.voters is empty and one of the flags "
            f"{flags} is used. For dynamic controllers support, try using one of {flags} and removing "
            "controller.quorum.voters."
        )
    if asked is not None and not 0 <= asked <= SUPPORTED[KRAFT_VERSION][1]:
        raise InvalidFeatureError(f"No feature:kraft.version with feature level {asked}")
