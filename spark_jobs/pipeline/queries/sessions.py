"""Sessions of a device: its events with gaps of at most `gap`, in event time, also if they arrive out of order."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_SUM = DecimalType(38, 6)
STATE = StructType(
    [
        StructField("start_ms", LongType()),
        StructField("end_ms", LongType()),
        StructField("count", LongType()),
        StructField("sum", _SUM),
    ]
)
OUTPUT = StructType(
    [
        StructField("device_id", StringType()),
        StructField("session_start", TimestampType()),
        StructField("session_end", TimestampType()),
        StructField("count", LongType()),
        StructField("sum", _SUM),
    ]
)


class Session(NamedTuple):
    """Session of a device; its last event was at the end."""

    start_ms: int
    end_ms: int
    count: int
    sum: Decimal


def merged(sessions: Iterable[Session], gap_ms: int) -> list[Session]:
    """Return the sessions in order of time, with those that are at most a gap apart as one."""
    found: list[Session] = []
    for each in sorted(sessions):
        last = found[-1] if found else None
        if last is not None and each.start_ms - last.end_ms <= gap_ms:
            end_ms = max(last.end_ms, each.end_ms)
            found[-1] = Session(last.start_ms, end_ms, last.count + each.count, last.sum + each.sum)
        else:
            found.append(each)
    return found


class Sessions(StatefulProcessor):  # type: ignore[misc] # pyspark has no types here
    """Open sessions of each device. A session is complete when the watermark is a gap behind its last event."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._open = handle.getListState("open", STATE)

    def handleInputRows(  # noqa: N802 Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any
    ) -> Iterator[pd.DataFrame]:
        new = [
            Session(int(time_ms), int(time_ms), 1, value)
            for frame in rows
            for time_ms, value in zip(frame["time_ms"], frame["value"], strict=True)
        ]
        before = self._sessions()
        after = merged([*before, *new], self._gap_ms)
        self._open.put([tuple(each) for each in after])
        self._set_timers(before, after)
        yield from ()

    def handleExpiredTimer(self, key: Any, timer_values: Any, expired_timer_info: Any) -> Iterator[pd.DataFrame]:  # noqa: N802
        expired_ms = expired_timer_info.getExpiryTimeInMs()
        sessions = self._sessions()
        complete = [each for each in sessions if each.end_ms + self._gap_ms < expired_ms]
        if not complete:
            return
        still_open = sessions[len(complete) :]
        if still_open:
            self._open.put([tuple(each) for each in still_open])
        else:
            self._open.clear()
        yield pd.DataFrame(
            {
                "device_id": [key[0]] * len(complete),
                "session_start": pd.to_datetime([each.start_ms for each in complete], unit="ms", utc=True),
                "session_end": pd.to_datetime([each.end_ms for each in complete], unit="ms", utc=True),
                "count": [each.count for each in complete],
                "sum": [each.sum for each in complete],
            }
        )

    def close(self) -> None:
        """Nothing to close."""

    def _sessions(self) -> list[Session]:
        return [Session(*row) for row in self._open.get()] if self._open.exists() else []

    def _set_timers(self, before: list[Session], after: list[Session]) -> None:
        """A timer for each open session: one that ends later has a later timer."""
        old, new = ({each.end_ms for each in sessions} for sessions in (before, after))
        for end_ms in old - new:
            self._handle.deleteTimer(end_ms + self._gap_ms + 1)
        for end_ms in new - old:
            self._handle.registerTimer(end_ms + self._gap_ms + 1)


def sessions(events: DataFrame, gap_ms: int) -> DataFrame:
    """Return the complete sessions of a stream of events with a watermark."""
    with_times = events.withColumn("time_ms", f.unix_millis("time"))
    return with_times.groupBy("device_id").transformWithStateInPandas(
        statefulProcessor=Sessions(gap_ms), outputStructType=OUTPUT, outputMode="Append", timeMode="EventTime"
    )
