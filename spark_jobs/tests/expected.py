"""Model of the pipeline in plain Python: what its tables must contain for a list of sent events."""

import json
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from spark_jobs.pipeline.device_events import Kind


class Event(NamedTuple):
    device_id: str
    kind: str
    time: datetime
    value: Decimal


def good_events(events):
    """Return the valid events by id, each once."""
    found = {}
    for each in events:
        if each.kind is Kind.COUNTED:
            fields = json.loads(each.text, parse_float=Decimal)
            time, value = datetime.fromisoformat(fields["time"]), Decimal(fields["value"])
            found[fields["event_id"]] = Event(fields["device_id"], fields["kind"], time, value)
    return found


def watermark(events, delay_seconds):
    return max(each.time for each in good_events(events).values()) - timedelta(seconds=delay_seconds)


def windows(events, window_seconds, until):
    """Return {(start, kind): (count, minimum, maximum, sum)} of the windows that end by a time."""
    values = defaultdict(list)
    for each in good_events(events).values():
        start = each.time.timestamp() // window_seconds * window_seconds
        if start + window_seconds <= until.timestamp():
            values[int(start), each.kind].append(each.value)
    return {key: (len(found), min(found), max(found), sum(found)) for key, found in values.items()}


def sessions(events, gap_seconds, until):
    """Return the sorted (device, first time, last time, count, sum) of sessions that are over by a time."""
    by_device = defaultdict(list)
    for each in good_events(events).values():
        by_device[each.device_id].append((each.time, each.value))
    found = []
    gap = timedelta(seconds=gap_seconds)
    for device, own in by_device.items():
        group = []
        for time, value in [*sorted(own), (None, None)]:
            if group and (time is None or time - group[-1][0] > gap):
                if group[-1][0] + gap < until:
                    found.append((device, group[0][0], group[-1][0], len(group), sum(value for _, value in group)))
                group = []
            group.append((time, value))
    return sorted(found)
