"""Parse types of columns as ClickHouse writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_provider_chs3.core.sql.quoting import identifier, items, unquoted

#: Hold a value of another type, and add nothing to it but how it is stored, or that it may be NULL.
_WRAPPERS = ("Nullable", "LowCardinality")

_LABELLED = re.compile(r"\s*(`(?:[^`\\]|\\.)*`|[A-Za-z_]\w*)\s+(\S.*)", re.DOTALL)

#: Types that are made of others.
COMPOUND = ("Array", "Map", "Tuple", "Nested")


@dataclass(frozen=True)
class ColumnType:
    """A type of ClickHouse."""

    #: As the server writes it, such as `Array(Nullable(DateTime64(3, 'UTC')))`.
    text: str

    @cached_property
    def name(self) -> str:
        """Its name, such as `Array`."""
        return self.text.partition("(")[0].strip()

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The texts in its parentheses, between commas."""
        opening = self.text.find("(")
        return () if opening < 0 else tuple(items(self.text[opening + 1 : self.text.rindex(")")]))

    @cached_property
    def bare(self) -> ColumnType:
        """The type inside `Nullable`, `LowCardinality` and `SimpleAggregateFunction`."""
        if self.name in _WRAPPERS:
            return self.inner[0].bare
        if self.name == "SimpleAggregateFunction":
            return ColumnType(self.arguments[1]).bare
        return self

    @cached_property
    def holds_null(self) -> bool:
        """Return whether it holds NULL."""
        if self.name in ("LowCardinality", "SimpleAggregateFunction"):
            return ColumnType(self.arguments[-1]).holds_null
        return self.name in ("Nullable", "Variant", "Dynamic", "Nothing")

    @cached_property
    def inner(self) -> tuple[ColumnType, ...]:
        """The types in an Array, Map, Tuple, Nested or a wrapper."""
        return tuple(ColumnType(column_type) for _, column_type in self._labelled)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the elements of a Tuple or Nested; empty if there are none."""
        labels = tuple(label for label, _ in self._labelled)
        return labels if all(labels) else ()

    @cached_property
    def _labelled(self) -> tuple[tuple[str, str], ...]:
        if self.name not in ("Tuple", "Nested"):
            return tuple(("", argument) for argument in self.arguments)
        elements = []
        for argument in self.arguments:
            matched = _LABELLED.fullmatch(argument)
            elements.append((unquoted(matched[1]), matched[2]) if matched else ("", argument))
        return tuple(elements)

    def parts(self, *names: str) -> Iterator[ColumnType]:
        """Find all types with these names in it, at any depth, itself included."""
        if self.name in names:
            yield self
        if self.name in (*_WRAPPERS, *COMPOUND):
            for inner in self.inner:
                yield from inner.parts(*names)

    def times(self) -> Iterator[ColumnType]:
        """Return all DateTime and DateTime64 types in it, at any depth."""
        return self.parts("DateTime", "DateTime64")

    def with_inner(self, inner: Sequence[ColumnType]) -> ColumnType:
        """Return a type of the same shape and names, with other types inside."""
        labels = self.labels or ("",) * len(inner)
        parts = (
            f"{identifier(label)} {inner_type}" if label else str(inner_type)
            for label, inner_type in zip(labels, inner, strict=True)
        )
        return ColumnType(f"{self.name}({', '.join(parts)})")

    @property
    def scale(self) -> int:
        """Digits after the point of a Decimal, or of the second of a DateTime64 or Time64."""
        if self.name == "Decimal":
            return int(self.arguments[1])
        return int(self.arguments[0]) if self.name in ("DateTime64", "Time64") else 0

    @property
    def precision(self) -> int:
        """Digits of a Decimal."""
        return int(self.arguments[0])

    @property
    def time_zone(self) -> str:
        """The zone of a DateTime or DateTime64; empty for the server's."""
        zone = self.arguments[-1] if self.arguments else ""
        return zone[1:-1] if zone.startswith("'") else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The values of an Enum, each as a literal as the server writes it."""
        return tuple(argument.rpartition("=")[0].strip() for argument in self.arguments)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of the values of an Enum, in their order."""
        return tuple(argument.rpartition("=")[2].strip() for argument in self.arguments)

    def __str__(self) -> str:
        return self.text
