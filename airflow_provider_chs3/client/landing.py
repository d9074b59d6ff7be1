"""Land a range of a topic: agree on its offsets, write the objects, and record the result."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.client.message_files import MessageFiles
from airflow_provider_chs3.core.exchange.topic_offsets import (
    OffsetRange,
    Offsets,
    kept_in_order,
    neighbours,
    offsets_as_json,
    offsets_of_json,
    ranges_between,
)
from airflow_provider_chs3.exceptions import NotReadyError, SourceError

if TYPE_CHECKING:
    from airflow_provider_chs3.client.runner import ProgressLog
    from airflow_provider_chs3.client.shared_objects import SharedObjects
    from airflow_provider_chs3.client.topic import Topic
    from airflow_provider_chs3.core.exchange.landing_request import LandingRequest
    from airflow_provider_chs3.core.model.period import Period


@dataclass(kw_only=True)
class Landing:
    """Land what a request asks for. Every write leaves a state from which another try can continue.

    The offsets at both points in time are recorded before the first object is written, and whoever records them first
    decides for all: the runs before and behind, and each later try. Objects are named after their offsets, and are
    never replaced. So a message is in exactly one object.
    """

    request: LandingRequest
    topic: Topic
    objects: SharedObjects
    lands_the_rest: bool
    log: ProgressLog
    #: Of each object that was landed: its period, messages and bytes.
    _landed: list[tuple[Period, int, int]] = field(default_factory=list, init=False)

    def run(self) -> dict[str, Any]:
        """Land, and return the result."""
        started = time.monotonic()
        request = self.request
        if (done := self.objects.get(request.done_key)) is not None:
            self.log.info("An earlier run has landed all of it.")
            return {**json.loads(done), "status": "unchanged"}
        if request.end > datetime.now(UTC):
            raise NotReadyError(
                f"The end of the landing, {request.end.isoformat()}, is in the future: a retry after it succeeds."
            )
        self._check_topic()
        self._claim()
        starts, ends = self._offsets_at(request.start), self._offsets_at(request.end)
        self._check_logs(starts, ends)
        for messages in ranges_between(starts, ends):
            self._land(messages, self._first_held(messages))
        result = {**self._result(), "seconds": round(time.monotonic() - started, 3)}
        self.objects.put(request.done_key, json.dumps(result).encode())
        return result

    def _check_topic(self) -> None:
        """Check that the topic is the one that was landed before."""
        topic_id = self.topic.identity()
        if topic_id is not None:
            recorded = self.objects.agreed(self.request.topic_key, self.request.identity(topic_id))
            self.request.check_identity(recorded, topic_id)

    def _check_logs(self, *recorded: Offsets) -> None:
        """Check that no log ends before an offset that it had: so it is, too, where brokers give topics no ids."""
        present = self.topic.partitions()
        for partition in sorted(set().union(*recorded)):
            offset = max(offsets.get(partition, 0) for offsets in recorded)
            end = self.topic.held(partition)[1] if partition in present else 0
            if end < offset:
                raise SourceError(
                    f"Offset {offset} of topic {self.request.topic!r}, partition {partition}, is recorded, but the "
                    f"log ends at {end}: the topic was created again, or lost messages. Land it under another key."
                )

    def _claim(self) -> None:
        """Record the run; of two that overlap, at least one sees the other."""
        request = self.request
        request.check_overlaps(self.objects.listed(request.runs))
        request.check_layout(self.objects.agreed(request.run_key, request.layout()))
        request.check_overlaps(self.objects.listed(request.runs))

    def _offsets_at(self, at: datetime) -> dict[int, int]:
        key = self.request.point_key(at)
        if (recorded := self.objects.get(key)) is not None:
            return offsets_of_json(recorded)
        offsets = self.topic.offsets_at(at)
        earlier_key, later_key = neighbours(list(self.objects.listed(self.request.points)), key)
        earlier, later = self._recorded(earlier_key), self._recorded(later_key)
        if at == self.request.start and earlier is not None:
            skipped = sum(messages.offsets for messages in ranges_between(earlier, offsets))
            self.log.warning(
                "No run has landed the %d offsets between %s and this run's start. If you want these messages, run the "
                "missing intervals.",
                skipped,
                earlier_key,
            )
        ordered = kept_in_order(offsets, earlier=earlier, later=later)
        return offsets_of_json(self.objects.agreed(key, offsets_as_json(ordered)))

    def _recorded(self, key: str | None) -> dict[int, int] | None:
        recorded = self.objects.get(key) if key is not None else None
        return None if recorded is None else offsets_of_json(recorded)

    def _first_held(self, offsets: OffsetRange) -> int:
        """Return the first offset of a range that Kafka still has."""
        topic = f"topic {self.request.topic!r}, partition {offsets.partition}"
        first, _ = self.topic.held(offsets.partition)
        if first <= offsets.first:
            return offsets.first
        lost = min(first, offsets.end) - offsets.first
        expired = f"{lost} offsets of {topic}, from {offsets.first} on, have expired"
        if not self.lands_the_rest:
            raise SourceError(
                f"{expired}: they are no longer in Kafka, which begins at {first}. on_expired='land_rest' lands what "
                "is left; set a retention longer than the delay of runs."
            )
        self.log.warning("%s.", expired)
        return min(first, offsets.end)

    def _land(self, offsets: OffsetRange, first_held: int) -> None:
        """Write the objects of a partition. They are cut by offsets alone, so that each try cuts them alike."""
        self.log.info("Partition %d: offsets %d to %d", offsets.partition, offsets.first, offsets.end - 1)
        if first_held >= offsets.end:
            return
        most = self.request.messages_per_object
        readable = OffsetRange(offsets.partition, first_held, offsets.end)
        pieces = list(offsets.cut(most))
        with closing(self.topic.messages(readable)) as messages:
            for number, of_piece in groupby(messages, lambda message: (message.offset() - offsets.first) // most):
                with MessageFiles(self.request.grain, self.request.timezone) as files:
                    for message in of_piece:
                        files.add(message)
                    self._write(files, pieces[number])

    def _write(self, files: MessageFiles, offsets: OffsetRange) -> None:
        for period, path, messages in files.finished():
            key = self.request.object_key(period, offsets)
            with path.open("rb") as body:
                is_new = self.objects.put(key, body)
            self._landed.append((period, messages, path.stat().st_size))
            self.log.info("%s: %d messages%s", key, messages, "" if is_new else ", unchanged")

    def _result(self) -> dict[str, Any]:
        request, landed = self.request, self._landed
        return {
            "status": "landed",
            "topic": request.topic,
            "start": request.start.isoformat(),
            "end": request.end.isoformat(),
            "messages": sum(messages for _, messages, _ in landed),
            "objects": len(landed),
            "bytes": sum(size_bytes for _, _, size_bytes in landed),
            "periods": [str(period) for period in sorted({period for period, _, _ in landed})],
        }
