"""SCRAM users created by formatting: described over the wire, kept in snapshots, their keys never disclosed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.cli import main
from kwire.cluster.raft.snapshots import decode_snapshot
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsUserName,
)
from kwire.protocol.messages.metadata_records import UserScramCredentialRecord
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

ARGUMENTS = (
    "SCRAM-SHA-512=[name=alice,iterations=8192,password=alice-secret]",
    "SCRAM-SHA-256=[name=alice,password=alice-secret]",
    'SCRAM-SHA-256=[name=bob,iterations=5000,salt="N3E=",saltedpassword="YCE="]',
)
USERS = {"alice": [(1, 4096), (2, 8192)], "bob": [(1, 5000)]}
OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "1000"}


@pytest.fixture
def formatted(data_dir: Path, tmp_path: Path) -> Path:
    """Return the directory of a separate node, formatted with two users."""
    properties = tmp_path / "format.properties"
    properties.write_text(f"log.dirs={data_dir}\n")
    users = [word for argument in ARGUMENTS for word in ("--add-scram", argument)]
    command = ["format", "-c", str(properties), "-t", "vqbMkXcHSCi2oJQ2pWmTnw", "--standalone", *users]
    ended = CliRunner().invoke(main, command)
    assert ended.exit_code == 0, ended.output
    assert "SCRAM-SHA-512 of alice, SCRAM-SHA-256 of alice, SCRAM-SHA-256 of bob" in ended.stdout
    return data_dir


def described(client: RawClient, *names: str) -> dict[str, list[tuple[int, int]] | int]:
    """Return mechanisms and iterations by user, or an error code."""
    users = [DescribeUserScramCredentialsUserName(name=name) for name in names] if names else None
    answer = client.ask(DescribeUserScramCredentialsRequest(users=users), 0)
    assert answer.error_code == ErrorCode.NONE
    assert all(not each.credential_infos for each in answer.results if each.error_code)
    return {
        each.user: each.error_code or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }


def test_scram_users_created_by_formatting_are_described(formatted: Path) -> None:
    with RunningBroker(formatted) as broker, broker.client() as client:
        assert described(client) == USERS
        assert described(client, "bob", "carol", "alice", "alice", "") == {
            "bob": [(1, 5000)],
            "carol": ErrorCode.RESOURCE_NOT_FOUND,
            "alice": ErrorCode.DUPLICATE_RESOURCE,
            "": ErrorCode.RESOURCE_NOT_FOUND,
        }


def test_scram_users_survive_snapshots_and_log_cleaning(formatted: Path) -> None:
    metadata = formatted / "__cluster_metadata-0"

    def snapshots() -> list[Path]:
        return sorted(metadata.glob("*.checkpoint"))[1:]

    with RunningBroker(formatted, OFTEN) as broker, broker.client() as client:

        def has_snapshot() -> bool:
            create_topic(client)
            return bool(snapshots())

        eventually(has_snapshot, "a snapshot")
    records = decode_snapshot(snapshots()[-1].read_bytes()).records
    kept = [each for each in records if isinstance(each, UserScramCredentialRecord)]
    assert {(each.name, each.mechanism) for each in kept} == {("alice", 1), ("alice", 2), ("bob", 1)}
    (formatted / "bootstrap.checkpoint").unlink()
    with RunningBroker(formatted, OFTEN) as broker, broker.client() as client:
        assert described(client) == USERS
