"""Runner of the quorum's scripts: one replica, node 1; the script plays all other nodes.

A script opens with comments. A line that begins with ">" is a command; the lines up to the next one are all actions
that the replica requests because of it. Random numbers are as low as possible: election timeouts are 1000 ms. Appended
batches are flushed at once, unless flushes are held. Offsets with epochs are written offset@epoch.

    > start voters=1,2,3 log=1,1,2 state=2,3,-1    log: the epoch of each record; state: epoch, leader, vote
                                                   others: static observer auto-join snapshot=10@2
                                                   id=9 my-disk=7 bootstrap=2,3
    > wait 1000
    > vote 2 epoch=3 last=4@2 pre                  requests of node 2; others: cluster= to= directory= version=
    > begin 2 epoch=3, end 2 epoch=3 successors=1,3
    > fetch 2 epoch=3 from=4@2 wait=500 known=4    known: the follower's high watermark
    > fetch-snapshot 2 epoch=3 snapshot=10@2 position=0
    > add 4, remove 3, update 2, describe          others: directory= wrong-listener versions=0-1 ack=written
    > reply 2 granted                              a response of node 2; others: rejected epoch= leader=
                                                   error= top= known= records=2,2 diverging=3@1 snapshot=10@2 bytes=5/9
    > unreachable 2
    > upgrade 1 validate
    > append 2, hold-flushes, flush, resign, shut-down, show
"""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

from kwire.cluster.quorum.config import QuorumConfig
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.machine import Quorum
from kwire.cluster.quorum.ready import Ready, Send
from kwire.cluster.quorum.state import QuorumState
from kwire.cluster.quorum.voters import VoterSet
from kwire.protocol.control_records import ControlRecordType
from kwire.protocol.messages.control_records import KRaftVersionRecord
from kwire.protocol.primitives import ZERO_UUID
from kwire.protocol.records import Record, encode_batch
from tests.cluster.quorum import script_messages as messages
from tests.cluster.quorum.memory_log import Content, MemoryLog
from tests.cluster.quorum.world import CLUSTER, LISTENER, directory, endpoints, voter


class LowChance:
    """Random source that always returns the lowest number."""

    def uuid(self) -> UUID:
        raise AssertionError("the quorum draws no ids")

    def uniform(self, low: float, high: float) -> float:
        return low


def ids(text: str) -> list[int]:
    return [int(it) for it in text.split(",") if it]


class ScriptRunner:
    def __init__(self) -> None:
        self.now_ms = 0.0
        self.log = MemoryLog()
        self.quorum: Quorum
        self.config: QuorumConfig
        self._sent: dict[int, Send] = {}
        self._holds_flushes = False
        self._seen: list[str] = []

    def run(self, command: str) -> list[str]:
        """Run the command of a line and return all observed actions."""
        verb, *words = command.split()
        options = dict((word if "=" in word else f"{word}=yes").split("=", 1) for word in words)
        handle = getattr(self, "_" + verb.replace("-", "_"), None)
        if handle is not None:
            handle(words, options)
        else:
            self._request(verb, words, options)
        seen, self._seen = self._seen, []
        return seen

    @property
    def asked(self) -> list[int]:
        """Return the nodes that have a request in flight."""
        return sorted(self._sent)

    def _see(self, text: str) -> None:
        self._seen.append(text)

    # --- the replica

    def _start(self, words: list[str], options: dict[str, str]) -> None:
        node_id = int(options.get("id", "9" if "observer" in options else "1"))
        self.config = QuorumConfig(
            cluster_id=CLUSTER,
            node_id=node_id,
            directory_id=directory(node_id, int(options.get("my-disk", "0"))),
            listener=LISTENER,
            endpoints=endpoints(node_id),
            bootstrap_servers=tuple((f"node{it}", 9000 + it) for it in ids(options.get("bootstrap", ""))),
            auto_join="auto-join" in options,
        )
        voter_ids = ids(options["voters"])
        voters = VoterSet(voter(it) for it in voter_ids)
        static = VoterSet.static([(it, f"node{it}", 9000 + it) for it in voter_ids], LISTENER)
        records = () if "static" in options else (KRaftVersionRecord(kraft_version=1), voters.to_record())
        snapshot = messages.position(options.get("snapshot", "0@0"))
        self.log.bootstrap(records)
        if snapshot.offset:
            self.log.snapshots = {snapshot: self.log.snapshots[OffsetAndEpoch(0, 0)]}
            self.log.now = Content((), snapshot.offset)
        for epoch in ids(options.get("log", "")):
            self.log.append(epoch, "value")
        self.log.flush()
        epoch, leader, voted = ids(options.get("state", "0,-1,-1"))
        vote_directory = directory(voted) if voted >= 0 else ZERO_UUID
        self.quorum = Quorum(
            config=self.config,
            state=QuorumState(leader_id=leader, leader_epoch=epoch, voted_id=voted, voted_directory_id=vote_directory),
            log=self.log,
            random_source=LowChance(),
            static_voters=static if "static" in options else None,
            records=self.log.records(),
        )
        self.quorum.start(self.now_ms)
        self._pump()

    def _pump(self) -> None:
        while (ready := self.quorum.take()) is not None:
            offsets = self._write(ready)
            records = self._snapshot(ready)
            self._tell(ready)
            self.quorum.done(self.now_ms, control_offsets=offsets, snapshot_records=records)
            if not self._holds_flushes and self.log.flushed_end_offset < self.log.end_offset:
                self.log.flush()
                self.quorum.flushed(self.now_ms)

    def _write(self, ready: Ready) -> list[int]:
        if ready.store is not None:
            it = ready.store
            self._see(f"store epoch={it.leader_epoch} leader={it.leader_id} voted={it.voted_id}")
        if ready.truncate_to is not None:
            self._see(f"truncate to {ready.truncate_to}")
            self.log.truncate(ready.truncate_to)
        offsets = []
        for batch in ready.append_control:
            offsets.append(self.log.append_control(batch.epoch, batch.records))
            names = ", ".join(messages.control_record(ControlRecordType(kind), it) for kind, it in batch.records)
            self._see(f"append at {offsets[-1]} epoch={batch.epoch}: {names}")
        if ready.append_records is not None:
            before = self.log.end_offset
            self.log.append_records(bytes(ready.append_records), self.quorum.epoch)
            self._see(f"append records {before} to {self.log.end_offset}")
        return offsets

    def _snapshot(self, ready: Ready) -> list[Any] | None:
        chunk = ready.snapshot_chunk
        if chunk is None:
            return None
        whole = " to the end" if chunk.is_last else ""
        self._see(f"snapshot {messages.at(chunk.snapshot_id)}: {len(chunk.data)} bytes at {chunk.position}{whole}")
        if not chunk.is_last or bytes(chunk.data).startswith(b"unsound"):
            return None
        self.log.snapshots = {chunk.snapshot_id: b""}
        self.log.now = self.log.durable = Content((), chunk.snapshot_id.offset)
        return [KRaftVersionRecord(kraft_version=1), self.quorum.history.voters.to_record()]

    def _tell(self, ready: Ready) -> None:
        if ready.high_watermark is not None:
            self._see(f"high watermark {ready.high_watermark}")
        if ready.leadership is not None:
            it = ready.leadership
            self._see(f"leader {it.leader_id} epoch={it.epoch}" + " established" * it.is_established)
        for answer in ready.answers:
            self._see(f"answer {answer.token}: {messages.response(answer)}")
        for send in ready.sends:
            self._sent[send.destination.node_id] = send
            self._see(f"send {send.destination.node_id}: {messages.request(send.request)}")

    # --- time and the log

    def _wait(self, words: list[str], options: dict[str, str]) -> None:
        end = self.now_ms + float(words[0])
        while self.quorum.next_deadline_ms <= end:
            self.now_ms = max(self.now_ms, self.quorum.next_deadline_ms)
            before = len(self._seen)
            self.quorum.tick(self.now_ms)
            self._pump()
            if len(self._seen) > before:
                self._seen.insert(before, f"- {self.now_ms:.0f} ms")
        self.now_ms = end

    def _append(self, words: list[str], options: dict[str, str]) -> None:
        for _ in range(int(words[0])):
            self.log.append(self.quorum.epoch, "value")
        if not self._holds_flushes:
            self.log.flush()
        self.quorum.appended(self.now_ms)
        self._pump()

    def _hold_flushes(self, words: list[str], options: dict[str, str]) -> None:
        self._holds_flushes = True

    def _flush(self, words: list[str], options: dict[str, str]) -> None:
        self.log.flush()
        self.quorum.flushed(self.now_ms)
        self._pump()

    def _resign(self, words: list[str], options: dict[str, str]) -> None:
        self.quorum.resign(self.quorum.epoch, self.now_ms)
        self._pump()

    def _upgrade(self, words: list[str], options: dict[str, str]) -> None:
        validate_only = "validate" in options
        self.quorum.upgrade_kraft_version("upgrade", int(words[0]), validate_only=validate_only, now_ms=self.now_ms)
        self._pump()

    def _shut_down(self, words: list[str], options: dict[str, str]) -> None:
        self.quorum.shut_down(self.now_ms, 5000)
        self._pump()

    def _show(self, words: list[str], options: dict[str, str]) -> None:
        quorum = self.quorum
        deadline = quorum.next_deadline_ms
        self._see(
            f"{type(quorum.role).__name__} epoch={quorum.epoch} leader={quorum.leader_id} "
            f"log={self.log.end_offset}@{self.log.last_epoch} high watermark={quorum.high_watermark} "
            f"voters={','.join(str(it) for it in sorted(quorum.history.voters.ids))}"
            + (" shut down" if quorum.is_shut_down else "")
            + (" waits for ever" if math.isinf(deadline) else "")
        )

    # --- messages

    def _request(self, verb: str, words: list[str], options: dict[str, str]) -> None:
        node_id = int(words[0]) if words and words[0].isdigit() else 0
        message = messages.incoming(verb, node_id, options, self.config)
        version = int(options.get("version", messages.newest(message)))
        listener = options.get("listener", LISTENER)
        token = f"{verb} {node_id}" if node_id else verb
        self.quorum.request(token, message, version=version, listener=listener, now_ms=self.now_ms)
        self._pump()

    def _reply(self, words: list[str], options: dict[str, str]) -> None:
        send = self._sent[int(words[0])]
        response = messages.reply(send, options, self.quorum, self._batches(ids(options.get("records", ""))))
        self.quorum.response(send.correlation_id, response, self.now_ms)
        self._pump()

    def _batches(self, epochs: list[int]) -> bytes:
        data = b""
        for place, epoch in enumerate(epochs):
            base = self.log.end_offset + place
            record = Record(value=b"theirs", timestamp=0)
            data += encode_batch([record], base_offset=base, partition_leader_epoch=epoch)
        return data

    def _unreachable(self, words: list[str], options: dict[str, str]) -> None:
        self.quorum.unreachable(self._sent[int(words[0])].correlation_id, self.now_ms)
        self._pump()
