"""Describe which messages of a topic a run lands, and the keys of the objects that it writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from airflow_provider_chs3.core.exchange.topic_offsets import OffsetRange
from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.exceptions import ConfigurationError, SourceError

_SAMPLE = datetime(2001, 10, 11, 12)


@dataclass(frozen=True, kw_only=True)
class LandingRequest:
    """The messages of a topic that a run lands, and the place of their objects."""

    topic: str
    start: datetime
    end: datetime
    key: str
    timezone: str
    messages_per_object: int

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None or self.start >= self.end:
            raise ConfigurationError(
                f"start={self.start.isoformat()}, end={self.end.isoformat()}: set two points in time with a zone, the "
                "earlier one first; the defaults are the ends of the run's data interval."
            )
        if self.messages_per_object < 1:
            raise ConfigurationError(f"messages_per_object={self.messages_per_object}: use 1 or more.")
        sample = Period.of(_SAMPLE, self.grain)
        if self._template.period_of(self.object_key(sample, OffsetRange(0, 0, 1))) != sample:
            raise ConfigurationError(
                f"key={self.key!r} cannot name what is landed: end it with the period's folder, as in "
                "'events/{YYYY-MM}/', or with '*.parquet' in it."
            )

    @property
    def grain(self) -> Grain:
        """The length of the periods that objects are of: the shortest that the template tells apart."""
        return self._template.grain

    def object_key(self, period: Period, offsets: OffsetRange) -> str:
        """Return the key of the object with a period's messages of a range."""
        name = f"{self.topic}-{offsets.partition}-{offsets.first:020d}-{offsets.end:020d}.parquet"
        return f"{self._template.keys_of(period).prefix}{name}"

    @property
    def records(self) -> str:
        """Beginning of the keys of what is recorded about the topic: beside the periods, where no load looks."""
        folder, slash, _ = self._template.keys_of_all.prefix.rpartition("/")
        return f"{folder}{slash}_kafka/{self.topic}/"

    @property
    def points(self) -> str:
        """Beginning of the keys of offsets at points in time."""
        return f"{self.records}offsets/"

    def point_key(self, at: datetime) -> str:
        """Return the key of the offsets at a point in time."""
        return f"{self.points}{_text(at)}.json"

    @property
    def runs(self) -> str:
        """Beginning of the keys of runs that have begun to land."""
        return f"{self.records}runs/"

    @property
    def run_key(self) -> str:
        """Key of this run's record."""
        return f"{self.runs}{self._name}.json"

    @property
    def done_key(self) -> str:
        """Key of this run's result, once all is landed."""
        return f"{self.records}done/{self._name}.json"

    @property
    def topic_key(self) -> str:
        """Key of the topic's id, as the first run found it."""
        return f"{self.records}topic.json"

    def identity(self, topic_id: str) -> bytes:
        """Return what all runs of the topic must have in common."""
        return json.dumps({"topic_id": topic_id}).encode()

    def check_identity(self, recorded: bytes, topic_id: str) -> None:
        """Check that the topic is the one that earlier runs landed."""
        was = json.loads(recorded)["topic_id"]
        if was != topic_id:
            raise SourceError(
                f"Topic {self.topic!r} was deleted and created again: its id was {was} ({self.topic_key}) and is "
                f"{topic_id}. Its offsets start over, so land it under another key."
            )

    def layout(self) -> bytes:
        """Return what all tries of the run must have in common."""
        layout = {"key": self.key, "timezone": self.timezone, "messages_per_object": self.messages_per_object}
        return json.dumps(layout).encode()

    def check_layout(self, recorded: bytes) -> None:
        """Check that an earlier try would have named and cut objects the same way."""
        was: dict[str, Any] = json.loads(recorded)
        current = json.loads(self.layout())
        if other := [
            f"{name} was {was.get(name)!r} and is {current[name]!r}"
            for name in current
            if was.get(name) != current[name]
        ]:
            raise SourceError(
                f"An earlier try of this run of topic {self.topic!r} landed with other arguments: {'; '.join(other)}. "
                f"Change them back, or delete that try's objects and {self.run_key}."
            )

    def check_overlaps(self, run_keys: Iterable[str]) -> None:
        """Check that no other run lands a part of what this one does."""
        start, end = _text(self.start), _text(self.end)
        for key in sorted(set(run_keys) - {self.run_key}):
            other_start, _, other_end = key.removeprefix(self.runs).removesuffix(".json").partition("_")
            if other_start < end and start < other_end:
                raise SourceError(
                    f"Another run landed topic {self.topic!r} from {other_start} to {other_end}, which overlaps this "
                    f"one, from {start} to {end}: its messages would be landed twice. Skip this run, or delete that "
                    f"run's objects, {key} and its result under {self.records}done/."
                )

    @property
    def _name(self) -> str:
        return f"{_text(self.start)}_{_text(self.end)}"

    @cached_property
    def _template(self) -> KeyTemplate:
        return KeyTemplate(self.key).finest


def _text(at: datetime) -> str:
    """Write a time to the millisecond, as Kafka has it, so that texts sort as times."""
    utc = at.astimezone(UTC)
    return f"{utc:%Y%m%dT%H%M%S}.{utc.microsecond // 1000:03d}Z"
