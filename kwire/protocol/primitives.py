"""Primitive types of Kafka's protocol, as annotations.

A message declares `epoch: int32`; mypy sees `int`, the codec sees the Primitive beside it. Entity aliases (BrokerId,
TopicName, ...) are the same wire types, named after what they identify; they are used where Kafka's schemas name an
entity. They are capitalised because a field must not have the name of its type: `producer_id: ProducerId`.

    type       bytes on the wire (all integers are big-endian)
    boolean    1, zero is false
    int8 ...   1, 2, 4 or 8
    float64    8
    uuid       16
    string     length then UTF-8; an int16 where -1 is null, in flexible versions an unsigned varint of length + 1
    bytes_     the same with an int32 length
    Records    as bytes_; the bytes are record batches, which stay bytes (kwire.protocol.records reads them)
"""

import struct
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

ZERO_UUID = UUID(int=0)
Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Primitive:
    """Wire type; `format` is its struct letter, empty if its size varies."""

    name: str
    default: object
    format: str = ""

    @property
    def size(self) -> int:
        """Bytes on the wire; only for types of fixed size."""
        return struct.calcsize(">" + self.format)


@dataclass(frozen=True, slots=True)
class Entity:
    """Kind of entity that a value identifies, by Kafka's name. The codec ignores it."""

    name: str


BOOLEAN = Primitive("boolean", default=False, format="?")
INT8 = Primitive("int8", default=0, format="b")
INT16 = Primitive("int16", default=0, format="h")
UINT16 = Primitive("uint16", default=0, format="H")
INT32 = Primitive("int32", default=0, format="i")
UINT32 = Primitive("uint32", default=0, format="I")
INT64 = Primitive("int64", default=0, format="q")
FLOAT64 = Primitive("float64", default=0.0, format="d")
UUID16 = Primitive("uuid", default=ZERO_UUID, format="16s")
STRING = Primitive("string", default="")
BYTES = Primitive("bytes", default=b"")
RECORDS = Primitive("records", default=None)

boolean = Annotated[bool, BOOLEAN]
int8 = Annotated[int, INT8]
int16 = Annotated[int, INT16]
uint16 = Annotated[int, UINT16]
int32 = Annotated[int, INT32]
uint32 = Annotated[int, UINT32]
int64 = Annotated[int, INT64]
float64 = Annotated[float, FLOAT64]
uuid = Annotated[UUID, UUID16]
string = Annotated[str, STRING]
bytes_ = Annotated[bytes, BYTES]
Records = Annotated[Buffer, RECORDS]

BrokerId = Annotated[int, INT32, Entity("brokerId")]
TopicName = Annotated[str, STRING, Entity("topicName")]
GroupId = Annotated[str, STRING, Entity("groupId")]
TransactionalId = Annotated[str, STRING, Entity("transactionalId")]
ProducerId = Annotated[int, INT64, Entity("producerId")]
