"""Random operations on a share coordinator's shard: Kafka's class and kwire answer and store the same.

Kafka may leave two neighbouring state batches apart that kwire joins, so batches are joined before they are compared.
"""

import asyncio
import base64
import dataclasses
import json
import random
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from compat_tests.harness.reference import class_path
from kwire.coordinator.share.batches import StateBatch, combine
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.records import decode_share_record, encode_share_record
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.uuids import uuid_to_text
from tests.coordinator.share.world import OTHER_ID, TOPIC_ID, ShareWorld
from tests.virtual_loop import WALL_START_MS, virtual_loop

SOURCE = Path(__file__).with_name("Shard.java")
UNKNOWN_ID = UUID(int=999)
COUNTS = {TOPIC_ID: 3, OTHER_ID: 2}
COLD_MS = 1000
STEPS = 1500
UPDATES_PER_SNAPSHOT = 3


def kafkas_answers(operations):
    """Return the answers of Kafka's shard to operations, one after another."""
    world = {
        "now_ms": WALL_START_MS,
        "topics": {uuid_to_text(topic_id): count for topic_id, count in COUNTS.items()},
        "settings": {
            "share.coordinator.snapshot.update.records.per.snapshot": UPDATES_PER_SNAPSHOT,
            "share.coordinator.cold.partition.snapshot.interval.ms": COLD_MS,
        },
    }
    lines = [json.dumps(world), *(json.dumps(kafkas_form(*each)) for each in operations)]
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path(), str(SOURCE)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def kafkas_form(op, key, fields):
    if op == "cold":
        return {"op": op, "request": None, "after_ms": COLD_MS}
    if op == "topic":
        return {"op": op, "request": {"topicId": uuid_to_text(key.topic_id)}}
    data = {"partition": key.partition} | {_camel(name): value for name, value in fields.items() if name != "batches"}
    if op == "write":
        names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
        data["stateBatches"] = [dict(zip(names, batch, strict=True)) for batch in fields["batches"]]
    topics = [{"topicId": uuid_to_text(key.topic_id), "partitions": [data]}]
    return {"op": op, "request": {"groupId": key.group_id, "topics": topics}}


def _camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def random_operations(seed, *, in_order):
    """Return operations on a few share partitions; `in_order` ones write at most one record each."""
    chance = random.Random(seed)
    groups = ["a", "b:c"]
    for _ in range(STEPS):
        topic_id = chance.choice([TOPIC_ID, TOPIC_ID, OTHER_ID, UNKNOWN_ID] if chance.random() < 0.1 else [TOPIC_ID])
        key = ShareKey(chance.choice(groups), topic_id, chance.choice([0, 0, 1, 2, 2, -1, 3]))
        op = chance.choice(["write"] * 12 + ["read"] * 4 + ["summary"] * 2 + ["initialize"] * 2 + ["delete"])
        if not in_order and chance.random() < 0.02:
            op = chance.choice(["cold", "cold", "cold", "topic"])
        yield op, key, fields_of(op, chance)


def fields_of(op, chance):
    epoch = chance.choice([-1, 0, 0, 1, 1, 1, 2])
    if op == "initialize":
        return {"state_epoch": epoch, "start_offset": chance.choice([-1, 0, 10])}
    if op in ("read", "summary"):
        return {"leader_epoch": chance.choice([-1, 0, 0, 0, 1, 2])}
    if op != "write":
        return {}
    firsts = [chance.randrange(60) for _ in range(chance.randrange(5))]
    return {
        "state_epoch": epoch,
        "leader_epoch": chance.choice([-1, 0, 1, 2, 2]),
        "start_offset": chance.choice([-1] * 6 + [chance.randrange(40)]),
        "delivery_complete_count": chance.randrange(20),
        "batches": [
            StateBatch(first, first + chance.randrange(12), chance.choice([0, 2, 4]), chance.randrange(1, 4))
            for first in firsts
        ],
    }


async def kwires_answer(world, op, key, fields):
    """Return the response's fields; errors as (code, message)."""
    coordinator = world.coordinator
    if op == "cold":
        await asyncio.sleep(COLD_MS / 1000)
        await _settle()
        return None
    if op == "topic":
        world.machine.delete_topic(key.topic_id)
        await _settle()
        return None
    call = getattr(coordinator, {"initialize": "initialise", "summary": "read_summary"}.get(op, op))
    try:
        answer = call(key) if op in ("delete", "summary") else call(key, **fields)
    except KafkaError as error:
        return {"errorCode": int(error.code)}
    return _answered(op, answer)


async def _settle():
    for _ in range(8):
        await asyncio.sleep(0)


def _answered(op, answer):
    if op == "summary":
        return {
            "errorCode": 0,
            "stateEpoch": answer.state_epoch,
            "leaderEpoch": answer.leader_epoch,
            "startOffset": answer.start_offset,
            "deliveryCompleteCount": answer.delivery_complete_count,
        }
    if op == "read":
        return {
            "errorCode": 0,
            "stateEpoch": answer.state_epoch,
            "startOffset": answer.start_offset,
            "stateBatches": [list(batch) for batch in answer.batches],
        }
    return {"errorCode": 0}


def kafkas_fields(op, answer):
    if answer["response"] is None:
        return None
    ((result,),) = [topic["partitions"] for topic in answer["response"]["results"]]
    if result["errorCode"] != 0:
        return {"errorCode": result["errorCode"]}
    found = {name: value for name, value in result.items() if name not in ("partition", "errorMessage")}
    if op == "read":
        found["stateBatches"] = [list(batch) for batch in joined(batch.values() for batch in result["stateBatches"])]
    return found


def joined(batches):
    return combine((), [StateBatch(*batch) for batch in batches], -1)


def kafkas_records(answer):
    """Return Kafka's records with joined batches, and check that kwire encodes them with the same bytes."""
    found = []
    for key, value in answer["records"]:
        stored = base64.b64decode(key), None if value is None else base64.b64decode(value)
        record = decode_share_record(*stored)
        assert encode_share_record(record) == stored
        if record.value is not None:
            state = dataclasses.replace(record.value, batches=joined(record.value.batches))
            record = record._replace(value=state)
        found.append(record)
    return sorted(found, key=lambda record: record.key)


async def compare(world, operations, *, in_order):
    await world.start()
    codes = set()
    for number, (operation, answer) in enumerate(zip(operations, kafkas_answers(operations), strict=True)):
        op, key, fields = operation
        where = f"step {number}: {operation}"
        ours, theirs = await kwires_answer(world, op, key, fields), kafkas_fields(op, answer)
        assert ours == theirs, where
        assert sorted(world.new_records(), key=lambda record: record.key) == kafkas_records(answer), where
        if in_order:
            assert max(world.machine.lowest_needed_offset(), 0) == max(answer["needed"], 0), where
        codes.add(ErrorCode(0 if ours is None else ours["errorCode"]))
    world.stop()
    return codes


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_kafkas_shard_answers_and_stores_the_same(tmp_path, seed, in_order):
    operations = list(random_operations(seed, in_order=in_order))
    with virtual_loop() as loop:
        world = ShareWorld(tmp_path, loop, updates_per_snapshot=UPDATES_PER_SNAPSHOT, cold_snapshot_interval_ms=COLD_MS)
        codes = loop.run_until_complete(compare(world, operations, in_order=in_order))
    assert {ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} <= codes
