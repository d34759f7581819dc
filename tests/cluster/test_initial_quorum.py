"""Command line arguments for a new quorum: its first voters and its feature levels."""

from __future__ import annotations

import pytest

from kwire.cluster.formatting.initial_controllers import InvalidVoterError, parse_initial_controllers
from kwire.cluster.formatting.initial_features import (
    InvalidFeatureError,
    initial_levels,
    metadata_version_of,
    parse_levels,
)
from kwire.cluster.metadata.features import FORMATTED, METADATA_VERSION, METADATA_VERSION_4_3_IV0, SUPPORTED
from kwire.cluster.quorum.voters import Listener, ReplicaKey
from kwire.protocol.uuids import uuid_from_text

ONE, TWO = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"


def test_voters_are_read() -> None:
    voters = parse_initial_controllers(f"2@[::1]:9094:{TWO}, 1@one.example.com:9093:{ONE},", "CONTROLLER")
    assert voters.keys == [ReplicaKey(1, uuid_from_text(ONE)), ReplicaKey(2, uuid_from_text(TWO))]
    assert voters.endpoints(1) == (Listener("CONTROLLER", "one.example.com", 9093),)
    assert voters.endpoints(2) == (Listener("CONTROLLER", "::1", 9094),)
    assert all(voter.supports(0) and voter.supports(1) for voter in voters)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "No voters given"),
        (",", "No voters given"),
        ("nonsense", "No @ found"),
        (f"x@h:1:{ONE}", "Failed to parse node id"),
        (f"-1@h:1:{ONE}", "Failed to parse node id"),
        (f"{2**31}@h:1:{ONE}", "Failed to parse node id"),
        (f"{'9' * 5000}@h:1:{ONE}", "Failed to parse node id"),
        ("1@h", "No colon following hostname"),
        ("1@h:1", "No colon following port"),
        (f"1@[::1:1:{ONE}", "no right bracket"),
        (f"1@[::1]1:{ONE}", "No colon following hostname"),
        (f"1@:1:{ONE}", "No hostname"),
        (f"1@h:x:{ONE}", "Failed to parse port"),
        (f"1@h::{ONE}", "Failed to parse port"),
        (f"1@h:99999:{ONE}", "Invalid port 99999"),
        (f"1@h:0:{ONE}", "Invalid port 0"),
        ("1@h:1:short", "Failed to parse directory ID"),
        (f"1@h:1:{ONE}:more", "Failed to parse directory ID"),
        ("1@h:1:AAAAAAAAAAAAAAAAAAAAAQ", "Reserved directory ID"),
        (f"1@h:1:{ONE},1@i:1:{TWO}", "Node id 1 was specified more than once"),
    ],
)
def test_malformed_voters_are_explained(text: str, words: str) -> None:
    with pytest.raises(InvalidVoterError) as rejected:
        parse_initial_controllers(text, "CONTROLLER")
    assert words in str(rejected.value)
    assert "\n" not in str(rejected.value)


@pytest.mark.parametrize("release", ["4.3-IV0", "4.3", "4.3.1"])
def test_releases_have_a_metadata_version(release: str) -> None:
    assert metadata_version_of(release) == METADATA_VERSION_4_3_IV0


@pytest.mark.parametrize(
    ("release", "level", "others"),
    [
        ("4.0", 25, {"transaction.version": 2, "group.version": 1}),
        ("4.1-IV0", 26, {"transaction.version": 2, "group.version": 1, "eligible.leader.replicas.version": 1}),
        (
            "4.2.1",
            29,
            {
                "transaction.version": 2,
                "group.version": 1,
                "share.version": 1,
                "streams.version": 1,
                "eligible.leader.replicas.version": 1,
            },
        ),
    ],
)
def test_an_older_release_has_its_levels(release: str, level: int, others: dict[str, int]) -> None:
    assert initial_levels({}, metadata_version_of(release), is_dynamic=True) == {"metadata.version": level} | others


@pytest.mark.parametrize("release", ["4.9", "3.2", "4.0-IV2", "4.3-IV9", "", "x.y"])
def test_unknown_releases_are_rejected(release: str) -> None:
    with pytest.raises(InvalidFeatureError, match=f"Unknown metadata[.]version '{release}'. Supported"):
        metadata_version_of(release)


def test_levels_are_read_and_the_last_counts() -> None:
    assert parse_levels(["a=1", "b=-2", "a=3"]) == {"a": 3, "b": -2}


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("transaction.version", "equals sign not found"),
        ("transaction.version=x", "unable to parse x as a short"),
        ("transaction.version=", "unable to parse  as a short"),
        ("transaction.version=40000", "unable to parse 40000 as a short"),
        ("transaction.version=1=2", "unable to parse 1=2 as a short"),
    ],
)
def test_malformed_feature_levels_are_explained(item: str, words: str) -> None:
    with pytest.raises(InvalidFeatureError, match=words):
        parse_levels([item])


def test_a_cluster_begins_with_the_defaults() -> None:
    levels = initial_levels({}, None, is_dynamic=True)
    assert levels == FORMATTED
    assert next(iter(levels)) == METADATA_VERSION
    assert list(levels)[1:] == sorted(list(levels)[1:])


def test_a_feature_may_be_lower_or_off() -> None:
    assert initial_levels({"transaction.version": 1}, None, is_dynamic=True)["transaction.version"] == 1
    assert "transaction.version" not in initial_levels({"transaction.version": 0}, None, is_dynamic=True)
    off = dict.fromkeys(SUPPORTED.keys() - {METADATA_VERSION, "kraft.version"}, 0)
    assert initial_levels(off, 30, is_dynamic=True) == {METADATA_VERSION: 30}


def test_kraft_version_goes_by_the_voters() -> None:
    assert initial_levels({"kraft.version": 1}, None, is_dynamic=True) == FORMATTED
    assert initial_levels({"kraft.version": 0}, None, is_dynamic=False) == FORMATTED


@pytest.mark.parametrize(
    ("asked", "release", "is_dynamic", "words"),
    [
        ({"foo.version": 7}, None, True, "Unsupported feature: foo.version. Supported features are: eligible"),
        ({"transaction.version": 9}, None, True, "No feature:transaction.version with feature level 9"),
        ({"transaction.version": -1}, None, True, "No feature:transaction.version with feature level -1"),
        ({"kraft.version": 7}, None, True, "No feature:kraft.version with feature level 7"),
        ({"kraft.version": 0}, None, True, "Cannot set kraft.version to 0 if controller.quorum.voters is empty"),
        ({"kraft.version": 1}, None, False, "Cannot set kraft.version to 1 unless controller.quorum.voters is empty"),
        ({"metadata.version": 3}, None, True, "No MetadataVersion with feature level 3"),
        ({"metadata.version": 30}, 30, True, "Use --release-version instead of --feature metadata.version=X"),
    ],
)
def test_invalid_initial_feature_levels_are_explained(
    asked: dict[str, int], release: int | None, is_dynamic: bool, words: str
) -> None:
    with pytest.raises(InvalidFeatureError) as rejected:
        initial_levels(asked, release, is_dynamic=is_dynamic)
    assert words in str(rejected.value)
