"""Messages of the quorum's scripts: parsed from the words of a script, and formatted as text."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kwire.cluster.quorum import answers
from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.core import Incoming
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.machine import Quorum
from kwire.cluster.quorum.ready import Answer, LogRead, Send, SnapshotRead
from kwire.cluster.quorum.version_upgrade import UpgradeOutcome
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from kwire.protocol.schema import schema_of
from tests.cluster.quorum.world import CLUSTER, LISTENER, directory, endpoints

TOPIC = answers.TOPIC


def position(text: str) -> OffsetAndEpoch:
    offset, _, epoch = text.partition("@")
    return OffsetAndEpoch(int(offset), int(epoch))


def at(where: OffsetAndEpoch) -> str:
    return f"{where.offset}@{where.epoch}"


def newest(message: Any) -> int:
    return schema_of(type(message)).versions.high


def disk_of(node_id: int, options: dict[str, str]) -> UUID:
    """Return the disk of a node; the option directory=other gives it another disk."""
    return directory(node_id, 7 if options.get("directory") == "other" else 0)


# --- requests to the replica


def incoming(verb: str, node_id: int, options: dict[str, str], config: QuorumConfig) -> Any:
    cluster = options.get("cluster", CLUSTER)
    epoch = int(options.get("epoch", "0"))
    made = {"vote": _vote, "begin": _begin, "end": _end, "fetch": _fetch, "fetch-snapshot": _fetch_snapshot}.get(verb)
    if made is not None:
        return made(node_id, options, config, cluster, epoch)
    if verb == "describe":
        partition = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
        topic = describe_quorum.DescribeQuorumRequestTopicData(
            topic_name=options.get("topic", TOPIC), partitions=[partition]
        )
        return describe_quorum.DescribeQuorumRequest(topics=[topic])
    return _voter_change(verb, node_id, options, cluster, epoch)


def _vote(node_id: int, options: dict[str, str], config: QuorumConfig, cluster: str, epoch: int) -> Any:
    last = position(options["last"])
    to = int(options.get("to", config.node_id))
    partition = vote.VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=node_id,
        replica_directory_id=disk_of(node_id, options),
        voter_directory_id=directory(to, 7 if options.get("my-directory") == "other" else 0),
        last_offset=last.offset,
        last_offset_epoch=last.epoch,
        pre_vote="pre" in options,
    )
    topic = vote.VoteRequestTopicData(topic_name=options.get("topic", TOPIC), partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster, voter_id=to, topics=[topic])


def _begin(node_id: int, options: dict[str, str], config: QuorumConfig, cluster: str, epoch: int) -> Any:
    to = int(options.get("to", config.node_id))
    partition = begin_quorum_epoch.BeginQuorumEpochRequestPartitionData(
        partition_index=0,
        voter_directory_id=directory(to, 7 if options.get("my-directory") == "other" else 0),
        leader_id=node_id,
        leader_epoch=epoch,
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster,
        voter_id=to,
        topics=[begin_quorum_epoch.BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin_quorum_epoch.BeginQuorumEpochLeaderEndpoint(name=it.name, host=it.host, port=it.port)
            for it in endpoints(node_id)
        ],
    )


def _end(node_id: int, options: dict[str, str], config: QuorumConfig, cluster: str, epoch: int) -> Any:
    successors = [int(it) for it in options.get("successors", "").split(",") if it]
    partition = end_quorum_epoch.EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=node_id,
        leader_epoch=epoch,
        preferred_candidates=[
            end_quorum_epoch.EndQuorumEpochReplicaInfo(candidate_id=it, candidate_directory_id=directory(it))
            for it in successors
        ],
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=cluster,
        topics=[end_quorum_epoch.EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
    )


def _fetch(node_id: int, options: dict[str, str], config: QuorumConfig, cluster: str, epoch: int) -> Any:
    begin = position(options["from"])
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=begin.offset,
        last_fetched_epoch=begin.epoch,
        partition_max_bytes=1024,
        replica_directory_id=disk_of(node_id, options),
        high_watermark=int(options.get("known", "9223372036854775807")),
    )
    return fetch.FetchRequest(
        cluster_id=cluster,
        replica_state=fetch.FetchReplicaState(replica_id=node_id),
        max_wait_ms=int(options.get("wait", "0")),
        max_bytes=1024,
        topics=[fetch.FetchTopic(topic=TOPIC, topic_id=answers.TOPIC_ID, partitions=[partition])],
    )


def _fetch_snapshot(node_id: int, options: dict[str, str], config: QuorumConfig, cluster: str, epoch: int) -> Any:
    wanted = position(options["snapshot"])
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=wanted.offset, epoch=wanted.epoch),
        position=int(options.get("position", "0")),
        replica_directory_id=directory(node_id),
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=options.get("topic", TOPIC), partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(cluster_id=cluster, replica_id=node_id, max_bytes=10, topics=[topic])


def _voter_change(verb: str, node_id: int, options: dict[str, str], cluster: str, epoch: int) -> Any:
    name = "OTHER" if "wrong-listener" in options else LISTENER
    where = [(name, it.host, int(options.get("port", it.port))) for it in endpoints(node_id)]
    disk = disk_of(node_id, options)
    if verb == "add":
        return add_raft_voter.AddRaftVoterRequest(
            cluster_id=cluster,
            timeout_ms=1000,
            voter_id=node_id,
            voter_directory_id=disk,
            listeners=[add_raft_voter.AddRaftVoterListener(name=n, host=h, port=p) for n, h, p in where],
            ack_when_committed=options.get("ack") != "written",
        )
    if verb == "remove":
        return remove_raft_voter.RemoveRaftVoterRequest(cluster_id=cluster, voter_id=node_id, voter_directory_id=disk)
    assert verb == "update", f"no such command: {verb}"
    lowest, highest = (int(it) for it in options.get("versions", "0-1").split("-"))
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=cluster,
        current_leader_epoch=epoch,
        voter_id=node_id,
        voter_directory_id=disk,
        listeners=[update_raft_voter.UpdateRaftVoterListener(name=n, host=h, port=p) for n, h, p in where],
        kraft_version_feature=update_raft_voter.UpdateRaftVoterKRaftVersionFeature(
            min_supported_version=lowest, max_supported_version=highest
        ),
    )


# --- responses to the replica's requests


def reply(send: Send, options: dict[str, str], quorum: Quorum, records: bytes) -> Any:
    """Return the response of the requested API with the options of the script; epoch and leader default to the
    replica's.
    """
    asked = send.request
    epoch = int(options.get("epoch", quorum.epoch))
    leader = int(options.get("leader", quorum.leader_id))
    error = ErrorCode[options.get("error", "NONE")]
    if isinstance(asked, api_versions.ApiVersionsRequest):
        lowest, highest = (int(it) for it in options.get("versions", "0-1").split("-"))
        feature = api_versions.SupportedFeatureKey(name="kraft.version", min_version=lowest, max_version=highest)
        return api_versions.ApiVersionsResponse(error_code=error, supported_features=[feature])
    if isinstance(asked, update_raft_voter.UpdateRaftVoterRequest):
        return update_raft_voter.UpdateRaftVoterResponse(error_code=error)
    if isinstance(asked, add_raft_voter.AddRaftVoterRequest):
        return add_raft_voter.AddRaftVoterResponse(error_code=error)
    if isinstance(asked, remove_raft_voter.RemoveRaftVoterRequest):
        return remove_raft_voter.RemoveRaftVoterResponse(error_code=error)
    core = quorum._core
    incoming = Incoming(token="", message=asked, version=0, listener=LISTENER)
    made = {
        vote.VoteRequest: lambda: answers.vote(core, incoming, error, is_granted="granted" in options),
        begin_quorum_epoch.BeginQuorumEpochRequest: lambda: answers.begin_quorum_epoch(core, incoming, error),
        end_quorum_epoch.EndQuorumEpochRequest: lambda: answers.end_quorum_epoch(core, incoming, error),
        fetch.FetchRequest: lambda: _fetch_reply(answers.fetch(core, incoming, error), options, epoch, leader, records),
        fetch_snapshot.FetchSnapshotRequest: lambda: _snapshot_reply(asked, options, epoch, leader, error),
    }[type(asked)]()
    response: Any = made
    if isinstance(response, (fetch.FetchResponse, fetch_snapshot.FetchSnapshotResponse)):
        return response
    response.error_code = ErrorCode[options.get("top", "NONE")]
    partition = response.topics[0].partitions[0]
    partition.leader_epoch, partition.leader_id = epoch, leader
    return response


def _fetch_reply(response: Any, options: dict[str, str], epoch: int, leader: int, records: bytes) -> Any:
    response.error_code = ErrorCode[options.get("top", "NONE")]
    partition = response.responses[0].partitions[0]
    partition.current_leader = fetch.FetchLeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    partition.high_watermark = int(options.get("known", "-1"))
    partition.records = records
    if "diverging" in options:
        end = position(options["diverging"])
        partition.diverging_epoch = fetch.FetchEpochEndOffset(epoch=end.epoch, end_offset=end.offset)
    if "snapshot" in options:
        end = position(options["snapshot"])
        partition.snapshot_id = fetch.FetchSnapshotId(end_offset=end.offset, epoch=end.epoch)
    return response


def _snapshot_reply(asked: Any, options: dict[str, str], epoch: int, leader: int, error: ErrorCode) -> Any:
    """Return a FetchSnapshot response; bytes=5/9 means five bytes of nine, at the requested position."""
    partition = asked.topics[0].partitions[0]
    count, size = (int(it) for it in options.get("bytes", "0/0").split("/"))
    named = position(options["snapshot"]) if "snapshot" in options else None
    snapshot = partition.snapshot_id
    data = (b"unsound" if "unsound" in options else b"........")[:count].ljust(count, b".")
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[
            fetch_snapshot.FetchSnapshotResponseTopicSnapshot(
                name=TOPIC,
                partitions=[
                    fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
                        index=0,
                        error_code=error,
                        snapshot_id=fetch_snapshot.SnapshotId(end_offset=named.offset, epoch=named.epoch)
                        if named
                        else snapshot,
                        current_leader=fetch_snapshot.FetchSnapshotLeaderIdAndEpoch(
                            leader_id=leader, leader_epoch=epoch
                        ),
                        size=size,
                        position=int(options.get("position", partition.position)),
                        unaligned_records=data,
                    )
                ],
            )
        ]
    )


# --- messages as text


def control_record(kind: ControlRecordType, record: Any) -> str:
    if kind == ControlRecordType.LEADER_CHANGE:
        voters = ",".join(str(it.voter_id) for it in record.voters)
        granting = ",".join(str(it.voter_id) for it in record.granting_voters)
        return f"leader change {record.leader_id} voters={voters} granting={granting}"
    if kind == ControlRecordType.KRAFT_VERSION:
        return f"kraft.version {record.kraft_version}"
    return "voters " + ",".join(f"{it.voter_id}:{it.endpoints[0].port}" for it in record.voters)


def request(message: Any) -> str:
    name = type(message).__name__.removesuffix("Request")
    if isinstance(message, vote.VoteRequest):
        it = message.topics[0].partitions[0]
        kind = " pre" if it.pre_vote else ""
        return f"{name}{kind} epoch={it.replica_epoch} last={it.last_offset}@{it.last_offset_epoch}"
    if isinstance(message, fetch.FetchRequest):
        part = message.topics[0].partitions[0]
        asked = f"from={part.fetch_offset}@{part.last_fetched_epoch} known={part.high_watermark}"
        return f"{name} epoch={part.current_leader_epoch} {asked}"
    if isinstance(message, fetch_snapshot.FetchSnapshotRequest):
        piece = message.topics[0].partitions[0]
        return f"{name} {piece.snapshot_id.end_offset}@{piece.snapshot_id.epoch} position={piece.position}"
    if isinstance(message, begin_quorum_epoch.BeginQuorumEpochRequest):
        return f"{name} epoch={message.topics[0].partitions[0].leader_epoch}"
    if isinstance(message, end_quorum_epoch.EndQuorumEpochRequest):
        end = message.topics[0].partitions[0]
        return f"{name} epoch={end.leader_epoch} successors={','.join(str(it) for it in end.preferred_successors)}"
    return f"{name} {message.voter_id}" if hasattr(message, "voter_id") else name


def response(answer: Answer) -> str:
    message = answer.response
    if isinstance(message, UpgradeOutcome):
        return f"{message.error.name}: {message.text}" if message.error else message.error.name
    code = ErrorCode(getattr(message, "error_code", 0))
    if isinstance(message, (add_raft_voter.AddRaftVoterResponse, remove_raft_voter.RemoveRaftVoterResponse)):
        return f"{code.name}: {message.error_message}" if code else code.name
    if isinstance(message, update_raft_voter.UpdateRaftVoterResponse):
        it = message.current_leader
        return f"{code.name} leader={it.leader_id} epoch={it.leader_epoch} {it.host}:{it.port}"
    if isinstance(message, describe_quorum.DescribeQuorumResponse):
        return _description(message)
    if code:
        return code.name
    topics = message.responses if isinstance(message, fetch.FetchResponse) else message.topics
    return _partition(message, topics[0].partitions[0], answer)


def _partition(message: Any, partition: Any, answer: Answer) -> str:
    leader = getattr(partition, "current_leader", partition)
    shown = [ErrorCode(partition.error_code).name, f"leader={leader.leader_id}", f"epoch={leader.leader_epoch}"]
    if message.node_endpoints:
        shown.append(f"at {message.node_endpoints[0].host}:{message.node_endpoints[0].port}")
    if isinstance(message, vote.VoteResponse):
        shown.append("granted" if partition.vote_granted else "rejected")
    if isinstance(message, fetch.FetchResponse):
        shown.append(f"high watermark={partition.high_watermark}")
        if partition.diverging_epoch.epoch >= 0:
            shown.append(f"diverging={partition.diverging_epoch.end_offset}@{partition.diverging_epoch.epoch}")
        if partition.snapshot_id.epoch >= 0:
            shown.append(f"snapshot={partition.snapshot_id.end_offset}@{partition.snapshot_id.epoch}")
    if isinstance(answer.read, LogRead):
        shown.append(f"records from {answer.read.offset}")
    if isinstance(answer.read, SnapshotRead):
        shown.append(f"{answer.read.max_bytes} bytes at {answer.read.position} of {partition.size}")
    return " ".join(shown)


def _description(message: describe_quorum.DescribeQuorumResponse) -> str:
    partition = message.topics[0].partitions[0]
    if partition.error_code:
        return ErrorCode(partition.error_code).name

    def replica(it: describe_quorum.QuorumReplicaState) -> str:
        """Return a replica as text; a question mark stands for an unknown directory."""
        directory = "" if it.replica_directory_id.int else "?"
        times = f"{it.last_fetch_timestamp},{it.last_caught_up_timestamp}"
        return f"{it.replica_id}{directory}:{it.log_end_offset}({times})"

    return (
        f"leader={partition.leader_id} epoch={partition.leader_epoch} high watermark={partition.high_watermark} "
        f"voters {' '.join(map(replica, partition.current_voters))} "
        f"observers {' '.join(map(replica, partition.observers))} "
        f"nodes {','.join(str(it.node_id) for it in message.nodes)}"
    ).strip()
