"""Steps of groups and transactions that need rare timing, as scripts (tests/coordinator/test_scripts.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordinator.test_scripts import run_script


def check(kind: str, directory: Path, script: str) -> None:
    """Check that the observed results equal those in the script."""
    expected = "\n".join(line.strip() for line in script.strip().splitlines()) + "\n"
    assert run_script(kind, expected, directory) == expected


def test_offsets_of_a_group_with_an_unknown_protocol_type_do_not_expire(tmp_path: Path) -> None:
    check(
        "group",
        tmp_path,
        """
        > config initial_rebalance_delay_ms=10 offsets_retention_ms=1000 retention_check_interval_ms=500
        > join a version=3 type=connect session=60000
        > wait 20
        a join: generation 1 range leader=a#1 member=a#1 members=a#1
        > sync a a=one
        a sync: 'one'
        > commit a t-0=5
        a commit: NONE
        > wait 5000
        > fetch t-0
        t-0: 5
        > leave a
        a leave: NONE
        > wait 5000
        > fetch t-0
        t-0: -1
        """,
    )


def test_a_static_member_cannot_join_with_the_id_of_a_dynamic_member(tmp_path: Path) -> None:
    check(
        "group",
        tmp_path,
        """
        > join a version=4
        a join: MEMBER_ID_REQUIRED member=a#1
        > join a version=5 instance=i
        a join: UNKNOWN_MEMBER_ID member=a#1
        > describe
        Empty type= protocol=
        """,
    )


def test_a_group_deleted_before_its_first_record_is_committed_is_not_deleted_again(tmp_path: Path) -> None:
    check(
        "group",
        tmp_path,
        """
        > hold-commits
        > join a version=4
        a join: MEMBER_ID_REQUIRED member=a#1
        > delete-group
        > commit - t-0=5
        > restart
        delete-group: NOT_COORDINATOR
        - commit: NOT_COORDINATOR
        > list
        g Empty classic
        > fetch t-0
        t-0: 5
        """,
    )


def test_the_metadata_of_an_offset_in_a_transaction_has_a_largest_size(tmp_path: Path) -> None:
    check(
        "transaction",
        tmp_path,
        """
        > init p
        p init: producer 1000 epoch 0
        > add-offsets p g
        p add-offsets: NONE
        > commit-offsets p g t-0=5 metadata=LONG
        p commit-offsets: OFFSET_METADATA_TOO_LARGE
        > commit-offsets p g t-0=6
        p commit-offsets: NONE
        > commit p
        p commit: goes on as producer 1000 epoch 1
        > fetch-offsets g t-0
        t-0: 6
        """.replace("LONG", "m" * 4097),
    )


def test_a_transaction_with_the_last_epoch_that_times_out_brings_a_new_producer_id(tmp_path: Path) -> None:
    check(
        "transaction",
        tmp_path,
        """
        > init p timeout=5000
        p init: producer 1000 epoch 0
        > epoch p 32766
        > produce p t-0 v
        p produce v: offset 0
        > records
        x Empty 1000/0
        x Empty 1000/32766
        x Ongoing 1000/32766 t-0
        > wait 30000
        > show t-0
        t-0: end 2 stable 2 aborted 1000 0..1
        > records
        x PrepareAbort 1000/32767 before 1001 t-0
        x CompleteAbort 1001/0 after 1000
        > init p
        p init: producer 1001 epoch 1
        """,
    )


def test_a_coordinator_without_its_topic_returns_not_coordinator(tmp_path: Path) -> None:
    check(
        "transaction",
        tmp_path,
        """
        > init p
        p init: producer 1000 epoch 0
        > add p t-0
        p add: NONE
        > add-offsets p g
        p add-offsets: NONE
        > delete-topic __consumer_offsets
        > commit-offsets p g t-0=5
        p commit-offsets: NOT_COORDINATOR
        > delete-topic __transaction_state
        > commit p
        p commit: NOT_COORDINATOR
        > init p
        p init: NOT_COORDINATOR
        > list
        """,
    )


def test_a_batch_behind_a_rejected_one_of_its_transaction_is_out_of_order(tmp_path: Path) -> None:
    check(
        "transaction",
        tmp_path,
        """
        > init p
        p init: producer 1000 epoch 0
        > reject-appends __transaction_state-0
        > produce p t-0 first sequence=0
        p produce first: NOT_ENOUGH_REPLICAS
        > allow-appends __transaction_state-0
        > produce p t-0 second sequence=1
        p produce second: OUT_OF_ORDER_SEQUENCE_NUMBER
        > produce p t-0 first sequence=0
        p produce first: offset 0
        > produce p t-0 second sequence=1
        p produce second: offset 1
        """,
    )


def test_a_waiting_transactional_batch_fails_when_its_topic_is_deleted(tmp_path: Path) -> None:
    check(
        "transaction",
        tmp_path,
        """
        > init p
        p init: producer 1000 epoch 0
        > reject-appends t-0
        > produce p t-0 a
        p produce a: NOT_ENOUGH_REPLICAS
        > commit p
        p commit: goes on as producer 1000 epoch 1
        > produce p t-0 b
        > delete-topic t
        > wait 1000
        p produce b: UNKNOWN_TOPIC_OR_PARTITION
        > show u-0
        u-0: end 0 stable 0
        """,
    )


def test_a_member_with_another_instance_id_releases_the_former_one(tmp_path: Path) -> None:
    check(
        "consumer",
        tmp_path,
        """
        > beat a topics=t instance=i
        a: epoch 2 t-0,t-1
        > beat a topics=t instance=j epoch=0
        a: epoch 2 t-0,t-1
        > beat b topics=t instance=i
        b: epoch 2 nothing
        > beat c topics=t instance=j
        c: UNRELEASED_INSTANCE_ID (Static member c with instance id j cannot join the group because the instance id \
is owned by a member.)
        """,
    )


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_member_of_a_new_group_is_fenced_although_it_left_a_deleted_one(tmp_path: Path, kind: str) -> None:
    """The member id is the same, and its leaving is committed after it has joined the new group."""
    joins = {"consumer": "beat a topics=t epoch=0", "streams": "beat a epoch=0 owned=-"}[kind]
    topology = "> topology 0=t\n" if kind == "streams" else ""
    script = f"""{topology}> {joins}
> hold-commits
> leave-group a; delete-group; {joins}
> release-commits
> wait 46000
> list
"""
    seen = run_script(kind, script, tmp_path)
    assert seen.endswith(f"> list\ng Empty {kind} {kind}\n"), seen
