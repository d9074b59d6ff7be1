"""Offsets of a topic at points in time, and the ranges between two points."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

#: Partition → its first offset that is not before a point in time. A partition that is missing was not there yet.
Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition."""

    partition: int
    first: int
    end: int

    @property
    def offsets(self) -> int:
        """Number of offsets; there may be fewer messages."""
        return self.end - self.first

    def cut(self, most_offsets: int) -> Iterator[OffsetRange]:
        """Cut the range, from its beginning."""
        for first in range(self.first, self.end, most_offsets):
            yield OffsetRange(self.partition, first, min(first + most_offsets, self.end))


def ranges_between(starts: Offsets, ends: Offsets) -> list[OffsetRange]:
    """Return the offsets between two points, in the order of partitions; a partition that was added starts at 0."""
    ranges = [OffsetRange(partition, starts.get(partition, 0), end) for partition, end in sorted(ends.items())]
    return [messages for messages in ranges if messages.offsets > 0]


def kept_in_order(offsets: Offsets, *, earlier: Offsets | None, later: Offsets | None) -> dict[int, int]:
    """Return the offsets at a point such that no range between recorded points runs backwards.

    The log may differ: an offset that is recorded as the end of the log, because no message was as late, may be
    before that of a late message which came since.
    """
    ordered = {partition: max(offset, (earlier or {}).get(partition, 0)) for partition, offset in offsets.items()}
    if later is None:
        return ordered
    return {partition: min(offset, later.get(partition, 0)) for partition, offset in ordered.items()}


def offsets_as_json(offsets: Offsets) -> bytes:
    """Write offsets as they are recorded."""
    return json.dumps({str(partition): offset for partition, offset in sorted(offsets.items())}).encode()


def offsets_of_json(text: bytes) -> dict[int, int]:
    """Read recorded offsets."""
    return {int(partition): offset for partition, offset in json.loads(text).items()}


def neighbours(names: Sequence[str], name: str) -> tuple[str | None, str | None]:
    """Return the names before and behind one, where names sort by time."""
    earlier = max((other for other in names if other < name), default=None)
    later = min((other for other in names if other > name), default=None)
    return earlier, later
