"""Late responses, errors of whole requests, nodes without an address, invalid messages: reactions of a replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kwire.cluster.quorum.voters import Listener, Voter
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.begin_quorum_epoch import BeginQuorumEpochLeaderEndpoint
from kwire.protocol.messages.fetch import FetchNodeEndpoint, FetchReplicaState
from kwire.protocol.primitives import ZERO_UUID
from tests.cluster.quorum import script, script_messages
from tests.cluster.quorum.script import ScriptRunner
from tests.cluster.quorum.world import LISTENER, voter

ELECTED = (
    "start voters=1,2,3 log=1,1 state=1,-1,-1",
    "wait 1000",
    "reply 2 granted",
    "reply 2 granted",
    "fetch 2 epoch=2 from=5@2",
    "fetch 4 epoch=2 from=5@2",
)
"""Script after which node 1 leads epoch 2 and has committed its log up to offset 5; nodes 2 and 4 have all of it."""


def run(*commands: str) -> ScriptRunner:
    runner = ScriptRunner()
    for command in commands:
        runner.run(command)
    return runner


def answered(runner: ScriptRunner, node_id: int, change: Callable[[Any], None], **options: str) -> list[str]:
    """Return the actions after a response with one change."""
    send = runner._sent[node_id]
    response = script_messages.reply(send, options, runner.quorum, b"")
    change(response)
    runner.quorum.response(send.correlation_id, response, runner.now_ms)
    runner._pump()
    seen, runner._seen = runner._seen, []
    return seen


def requested(
    runner: ScriptRunner, verb: str, node_id: int, change: Callable[[Any], None], **options: str
) -> list[str]:
    """Return the actions after a request with one change."""
    message = script_messages.incoming(verb, node_id, options, runner.config)
    change(message)
    version = script_messages.newest(message)
    runner.quorum.request(verb, message, version=version, listener=LISTENER, now_ms=runner.now_ms)
    runner._pump()
    seen, runner._seen = runner._seen, []
    return seen


def shown(runner: ScriptRunner) -> str:
    (line,) = runner.run("show")
    return line


# --- a follower


def fetching_a_snapshot() -> ScriptRunner:
    runner = run("start voters=1,2,3 log=1,1 state=3,2,-1")
    assert runner.run("reply 2 snapshot=10@2") == ["send 2: FetchSnapshot 10@2 position=0"]
    return runner


def test_an_unknown_error_code_is_handled_like_other_errors() -> None:
    runner = run("start voters=1,2,3 log=1,1 state=3,2,-1")

    def change(response: Any) -> None:
        response.responses[0].partitions[0].error_code = 9999

    answered(runner, 2, change)
    assert shown(runner) == "Follower epoch=3 leader=2 log=2@1 high watermark=-1 voters=1,2,3"
    assert runner.run("wait 20")[-1] == "send 2: Fetch epoch=3 from=2@1 known=-1"


def test_a_snapshot_of_what_is_here_already_is_not_fetched() -> None:
    runner = run("start voters=1,2,3 log=1,1,1 state=3,2,-1", "reply 2 known=3")
    assert not any("FetchSnapshot" in line for line in runner.run("reply 2 snapshot=2@1"))
    assert shown(runner) == "Follower epoch=3 leader=2 log=3@1 high watermark=3 voters=1,2,3"
    assert runner.run("wait 20")[-1] == "send 2: Fetch epoch=3 from=3@1 known=3"


def test_a_log_that_ends_where_it_parts_from_the_leaders_is_not_cut() -> None:
    runner = run("start voters=1,2,3 log=1,1 state=3,2,-1")
    assert runner.run("reply 2 diverging=9@1") == ["send 2: Fetch epoch=3 from=2@1 known=-1"]


def no_partition(response: Any) -> None:
    response.topics[0].partitions = []


def no_topic(response: Any) -> None:
    response.topics = []


def rejected(response: Any) -> None:
    response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_node_that_may_not_send_requests_of_the_quorum_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    runner = run("start voters=1,2,3 log=1,1 state=3,2,-1")
    answered(runner, 2, rejected)
    assert runner.quorum.is_denied
    runner.run("wait 20")
    answered(runner, 2, rejected)
    (record,) = [each for each in caplog.records if "denies requests of the quorum" in each.message]
    assert "allow its principal ClusterAction" in record.message


def other_topic(response: Any) -> None:
    response.topics[0].name = "other"


def other_partition(response: Any) -> None:
    response.topics[0].partitions[0].index = 1


@pytest.mark.parametrize("change", [no_partition, no_topic, rejected, other_topic, other_partition])
def test_an_invalid_snapshot_chunk_is_requested_again(change: Callable[[Any], None]) -> None:
    runner = fetching_a_snapshot()
    assert not any("snapshot 10@2" in line for line in answered(runner, 2, change, bytes="5/9"))
    assert runner.run("wait 20")[-1] == "send 2: FetchSnapshot 10@2 position=0"
    assert runner.run("reply 2 bytes=5/9")[0] == "snapshot 10@2: 5 bytes at 0"


def test_the_answer_to_a_fetch_of_a_snapshot_may_name_a_newer_leader() -> None:
    runner = fetching_a_snapshot()
    assert runner.run("reply 2 error=FENCED_LEADER_EPOCH epoch=4 leader=3") == [
        "store epoch=4 leader=3 voted=-1",
        "leader 3 epoch=4",
        "send 3: Fetch epoch=4 from=2@1 known=-1",
    ]


def test_the_answer_to_a_fetch_of_a_snapshot_may_say_that_it_leads_no_more() -> None:
    runner = fetching_a_snapshot()
    runner.run("reply 2 error=NOT_LEADER_OR_FOLLOWER leader=-1")
    assert shown(runner).startswith("Follower epoch=3 leader=2")
    assert runner.run("wait 20")[-1] == "send 2: FetchSnapshot 10@2 position=0"


def test_the_leader_is_found_among_the_endpoints_that_an_answer_names() -> None:
    runner = run("start observer voters=1,2,3 bootstrap=2")

    def change(response: Any) -> None:
        response.node_endpoints = [
            FetchNodeEndpoint(node_id=2, host="elsewhere", port=1),
            FetchNodeEndpoint(node_id=7, host="seven", port=77),
        ]

    asked = next(iter(runner._sent))
    seen = answered(runner, asked, change, epoch="5", leader="7", error="NOT_LEADER_OR_FOLLOWER")
    assert "leader 7 epoch=5" in seen
    assert runner.quorum._core.leader_endpoints == (Listener(LISTENER, "seven", 77),)


def test_a_leader_without_an_address_here_is_looked_for_at_the_others() -> None:
    runner = run("start voters=1,2,3 log=1,1 state=1,-1,-1")

    def change(request: Any) -> None:
        request.leader_endpoints = [BeginQuorumEpochLeaderEndpoint(name="OTHER", host="x", port=1)]

    seen = requested(runner, "begin", 2, change, epoch="3")
    assert "leader 2 epoch=3" in seen
    assert seen[-1].endswith(": Fetch epoch=3 from=2@1 known=-1")


def test_a_rejected_update_raft_voter_is_retried() -> None:
    runner = run("start voters=1,2,3 static log=1,1 state=1,2,-1", "reply 2", "wait 1900", "reply 2", "wait 200")
    assert runner.run("reply 2") == ["send 2: UpdateRaftVoter 1"]
    runner.run("reply 2 error=VOTER_NOT_FOUND")
    seen: list[str] = []
    for _ in range(4):
        seen += runner.run("wait 1000") + runner.run("reply 2")
    assert "send 2: UpdateRaftVoter 1" in seen


def test_a_follower_has_no_possible_successor() -> None:
    runner = run("start voters=1,2,3 log=1,1 state=3,2,-1")
    assert not runner.quorum.has_possible_successor(0)


def test_the_voter_that_a_request_means_may_be_left_open() -> None:
    runner = run("start voters=1,2,3 log=1,1 state=1,-1,-1")

    def change(request: Any) -> None:
        request.voter_id = -1
        request.topics[0].partitions[0].voter_directory_id = ZERO_UUID

    seen = requested(runner, "vote", 2, change, epoch="2", last="2@1")
    assert "answer vote: NONE leader=-1 epoch=2 granted" in seen


# --- a leader


def test_a_rejected_announcement_is_repeated() -> None:
    runner = run(*ELECTED[:4])
    runner.run("reply 2 top=CLUSTER_AUTHORIZATION_FAILED")
    assert shown(runner).startswith("Leader epoch=2")
    assert "send 2: BeginQuorumEpoch epoch=2" in runner.run("wait 1100")


def test_a_fetch_without_a_replica_id_gets_a_response_and_is_not_tracked() -> None:
    runner = run(*ELECTED)

    def change(request: Any) -> None:
        request.replica_state = FetchReplicaState(replica_id=-1)

    before = runner.run("describe")
    seen = requested(runner, "fetch", 9, change, epoch="2", **{"from": "2@1"})
    assert seen == ["answer fetch: NONE leader=1 epoch=2 at node1:9001 high watermark=5 records from 2"]
    assert runner.run("describe") == before


def test_a_voter_must_be_named_whole_to_be_removed() -> None:
    runner = run(*ELECTED)

    def without_directory(request: Any) -> None:
        request.voter_directory_id = ZERO_UUID

    def without_id(request: Any) -> None:
        request.voter_id = -1

    for change in (without_directory, without_id):
        seen = requested(runner, "remove", 2, change)
        assert seen == ["answer remove: INVALID_REQUEST: a voter has an id and a directory id"]


def test_an_update_that_changes_nothing_writes_nothing() -> None:
    runner = run(*ELECTED)
    assert runner.run("update 2 epoch=2") == ["answer update 2: NONE leader=1 epoch=2 node1:9001"]
    assert shown(runner) == "Leader epoch=2 leader=1 log=5@2 high watermark=5 voters=1,2,3"


def test_an_addition_that_was_answered_when_it_was_written_is_not_answered_again_when_the_leader_goes() -> None:
    runner = run(*ELECTED, "add 4 ack=written")
    assert runner.run("reply 4")[-1] == "answer add 4: NONE"
    seen = runner.run("begin 3 epoch=3")
    assert "leader 3 epoch=3" in seen
    assert not any(line.startswith("answer add") for line in seen)


def late_addition(runner: ScriptRunner) -> None:
    """Run an AddVoter request for node 4 that has timed out; the leader's request to node 4 is still in flight."""
    runner.run("add 4")
    seen: list[str] = []
    for _ in range(5):
        seen += runner.run("wait 500") + runner.run("fetch 2 epoch=2 from=5@2")
    assert any(line.startswith("answer add 4: REQUEST_TIMED_OUT") for line in seen)


@pytest.mark.parametrize("command", ["reply 4", "unreachable 4"])
def test_a_late_response_of_a_new_voter_changes_nothing(command: str) -> None:
    runner = run(*ELECTED)
    late_addition(runner)
    assert runner.run(command) == []
    assert shown(runner) == "Leader epoch=2 leader=1 log=5@2 high watermark=5 voters=1,2,3"


@pytest.mark.parametrize("command", ["reply 4", "unreachable 4"])
def test_a_late_response_of_a_new_voter_does_not_count_for_another_addition(command: str) -> None:
    runner = run(*ELECTED, "fetch 5 epoch=2 from=5@2")
    late_addition(runner)
    runner.run("fetch 5 epoch=2 from=5@2")
    assert runner.run("add 5") == ["send 5: ApiVersions"]
    assert runner.run(command) == []
    assert runner.run("reply 5") == ["append at 5 epoch=2: voters 1:9001,2:9002,3:9003,5:9005"]


def test_voters_appended_by_a_resigning_leader_are_in_its_log() -> None:
    """After a pause of the process, the awaited response and the end of the leader's timeout arrive together."""
    runner = run(*ELECTED, "wait 2000", "add 4")
    runner.run("fetch 4 epoch=2 from=5@2")
    runner.now_ms += 1500
    seen = runner.run("reply 4")
    assert "append at 5 epoch=2: voters 1:9001,2:9002,3:9003,4:9004" in seen
    assert "answer add 4: NOT_LEADER_OR_FOLLOWER: this node leads no more" in seen
    assert shown(runner).startswith("Resigned epoch=2 leader=1 log=6@2 high watermark=5 voters=1,2,3,4")


# --- voters without an address


@pytest.fixture
def third_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the third voter no listener with the name that controllers use."""

    def made(node_id: int, disk: int = 0) -> Voter:
        found = voter(node_id, disk)
        listener = Listener("OTHER" if node_id == 3 else LISTENER, f"node{node_id}", 9000 + node_id)
        return Voter(key=found.key, endpoints=(listener,), min_kraft_version=0, max_kraft_version=1)

    monkeypatch.setattr(script, "voter", made)


@pytest.mark.usefixtures("third_is_elsewhere")
def test_a_voter_without_an_address_is_not_asked_and_the_others_elect() -> None:
    runner = run("start voters=1,2,3 log=1,1 state=1,-1,-1")
    seen = runner.run("wait 1000")
    seen += runner.run("reply 2 granted") + runner.run("reply 2 granted")
    assert "leader 1 epoch=2" in seen
    seen += runner.run("fetch 2 epoch=2 from=5@2") + runner.run("resign")
    assert "send 2: EndQuorumEpoch epoch=2 successors=2,3" in seen
    assert not any(line.startswith("send 3") for line in seen)
