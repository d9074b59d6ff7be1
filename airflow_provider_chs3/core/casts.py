"""How one value becomes one of another type, and what shows that nothing of it was lost on the way.

ClickHouse's own conversions drop what does not fit: digits beyond the scale of a Decimal, parts of a second, the time
of day. A text that it cannot parse is NULL without a word, if the type may be. So each conversion here comes with a
condition that holds where the value is still the one that was written: mostly it casts back and compares.
docs/protocol.md lists what is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.column_types import ColumnType
from airflow_provider_chs3.core.sql import identifier, literal
from airflow_provider_chs3.core.text_casts import digits_fit, holds_of_text

_FLOATS = ("Float32", "Float64", "BFloat16")
_DATES = ("Date", "Date32")
_TIMES = ("DateTime", "DateTime64")
TEXTS = ("String", "FixedString")
_INT64_DIGITS = 18
#: First and last years of servers' calendars: 1900 to 2299, and 0 to 9999 of newer ones.
_EDGES_OF_CALENDARS = (0, 1900, 2299, 9999)
#: A type that holds more than ClickHouse can show.
MAY_BE_OUT_OF_RANGE = re.compile(r"\bDateTime64\b")
#: Whose values ClickHouse converts as it sees fit, or not at all.
OPAQUE = ("JSON", "Object", "Variant", "Dynamic", "AggregateFunction", "Nothing")


@dataclass(frozen=True)
class Cast:
    """A value as another type.

    Args:
        value: The expression.
        holds: True where it is the value that was written, or both are NULL; None where it always is, or the expression
            fails by itself.
    """

    value: str
    holds: str | None = None


#: Tells by a NULL what does not fit.
OR_NULL = "accurateCastOrNull"


@dataclass(frozen=True)
class Casting:
    """How values are cast.

    Args:
        function: `accurateCast`, which fails, or `accurateCastOrNull`, which tells by a NULL what does not fit.
        is_lossy: Whether what does not fit may be lost: digits, parts of a second, the time of day.
        depth: How many lambdas the expression is in.
    """

    function: str = "accurateCast"
    is_lossy: bool = False
    depth: int = 0

    def to(self, value: str, target: ColumnType) -> str:
        """The server's own conversion."""
        # A wrapped type cannot be NULL where it does not fit.
        text = target.bare.text if self.function == OR_NULL else target.text
        return f"{self.function}({value}, {literal(text)})"

    def cast(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        """The value as the target's type.

        Args:
            value: The expression.
            source: Its type.
            target: The type that it is to have.
        """
        if source.text == target.text and not MAY_BE_OUT_OF_RANGE.search(target.text):
            return Cast(value)
        one, other = source.bare, target.bare
        if other.name in CONTAINERS and one.name in TEXTS:
            roomy = roomy_type(other)
            return self.cast(f"CAST({value}, {literal(roomy.text)})", roomy, target)
        if other.name in CONTAINERS and other.name == one.name:
            return CONTAINERS[other.name](self, value, one, target)
        if other.name in (*CONTAINERS, *OPAQUE) or one.name in (*CONTAINERS, *OPAQUE):
            return Cast(f"CAST({value}, {literal(target.text)})" if one.name in TEXTS else self.to(value, target))
        made = self._scalar(value, one, other, target)
        made = replace(made, holds=None) if self.is_lossy and one.name not in TEXTS else made
        return replace(made, holds=_for_nulls(made, value, source, target))

    def _scalar(self, value: str, one: ColumnType, other: ColumnType, target: ColumnType) -> Cast:
        made = self.to(value, target)
        if one.text == other.text:
            return Cast(made, _in_range(made, other) if other.name == "DateTime64" else None)
        if (one.name, other.name) == ("FixedString", "String"):
            # The server's own conversion drops zero bytes at the end.
            return Cast(self.to(f"concat({value}, '')", target))
        if one.name in TEXTS:
            return Cast(made, None if self.is_lossy else holds_of_text(value, made, other))
        for applies, cast in _SCALARS:
            if applies(one, other):
                return cast(self, value, one, target)
        return Cast(made)

    def of_elements(self, column: str, cast: Callable[[Casting, str], Cast]) -> tuple[str, Cast]:
        """The name of a lambda's argument, and the cast of it."""
        name = f"{column}{self.depth + 1}"
        return name, cast(replace(self, depth=self.depth + 1), name)


def _for_nulls(made: Cast, value: str, source: ColumnType, target: ColumnType) -> str | None:
    """What does not fit a type that may be NULL becomes NULL, where the value was none."""
    if source.bare.text == target.bare.text or not target.holds_null:
        holds = made.holds
    else:
        holds = f"isNotNull({made.value})" + (f" AND {made.holds}" if made.holds else "")
    return f"(isNull({value}) OR ifNull({holds}, 0))" if holds and source.holds_null else holds


def _to_decimal(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    made = casting.to(value, target)
    same = f"{made} = {value} AND " if one.name == "Decimal" and one.scale > target.bare.scale else ""
    return Cast(made, same + digits_fit(made, target.bare))


def _to_float(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    # accurateCast refuses 0.1 for a Float32, as it has no such value; rounding is what a Float32 is for.
    made = f"CAST({value}, {literal(f'Nullable({target.bare})' if casting.function == OR_NULL else target.text)})"
    return Cast(made, None if one.name == target.bare.name else f"isInfinite({made}) = isInfinite({value})")


def _to_bool(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    return Cast(casting.to(value, target), f"{value} IN (0, 1)")


def _float_to_decimal(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    """The nearest decimal: the server's own conversion cuts 0.29, which is a little less as a double, to 0.28."""
    scale = target.bare.scale
    if target.bare.precision <= _INT64_DIGITS:
        units = f"CAST(accurateCastOrNull(round({value} * 1e{scale}), 'Int64'), 'Nullable(Decimal(18, 0))')"
        nearest = f"{units} * CAST('1e-{scale}', 'Decimal(18, {scale})')"
    else:
        # Five times as slow, and there are no decimals of wider integers.
        nearest = f"toString({value})"
    made = casting.to(nearest, target)
    return Cast(made, f"CAST({made}, 'Nullable({one.name})') = {value} AND {digits_fit(made, target.bare)}")


def _is_back(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    """Cast back to what it was."""
    made = casting.to(value, target)
    return Cast(made, f"CAST({made}, {literal(f'Nullable({one.text})')}) = {value}")


def _is_equal(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    """Compare with what it was, where the server compares both types exactly."""
    made = casting.to(value, target)
    same = f"{made} = {value}"
    return Cast(made, f"{same} AND {_in_range(made, target.bare)}" if target.bare.name == "DateTime64" else same)


def _in_range(made: str, target: ColumnType) -> str:
    """ClickHouse stores ticks beyond its calendar, but shows and partitions them as its first or last year."""
    edges = f"toYear({made}) NOT IN ({', '.join(map(str, _EDGES_OF_CALENDARS))})"
    return f"({edges} OR accurateCastOrNull(toString({made}), {literal(target.text)}) = {made})"


def _number_to_address(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    return Cast(f"CAST(CAST({value}, 'Nullable(UInt32)'), {literal(target.text)})")


def _is_integer(of: ColumnType) -> bool:
    return of.name.startswith(("Int", "UInt")) and of.name.lstrip("U")[3:].isdecimal()


#: Which pairs of types take more than the server's own conversion. The first that applies counts.
_SCALARS: tuple[
    tuple[Callable[[ColumnType, ColumnType], bool], Callable[[Casting, str, ColumnType, ColumnType], Cast]], ...
] = (
    (lambda one, other: one.name in _FLOATS and other.name in _FLOATS, _to_float),
    (lambda one, other: other.name == "Bool" and (_is_integer(one) or one.name in _FLOATS), _to_bool),
    (lambda one, other: one.name in _FLOATS and other.name == "Decimal", _float_to_decimal),
    (lambda one, other: other.name == "Decimal" and (one.name == "Decimal" or _is_integer(one)), _to_decimal),
    (lambda one, other: one.name == "Decimal" and _is_integer(other), _is_back),
    (lambda one, other: one.name in _TIMES and other.name in _DATES, _is_back),
    (lambda one, other: one.name in _TIMES and other.name in _TIMES, _is_equal),
    (lambda one, other: one.name in _DATES and other.name in _DATES, _is_equal),
    (lambda one, other: _is_integer(one) and other.name in (*_DATES, *_TIMES), _is_back),
    (lambda one, other: one.name in (*_DATES, *_TIMES) and _is_integer(other), _is_back),
    (lambda one, other: _is_integer(one) and other.name == "IPv4", _number_to_address),
)


def _array(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    name, each = casting.of_elements("v", lambda inner, v: inner.cast(v, one.inner[0], target.bare.inner[0]))
    made = f"CAST(arrayMap({name} -> {each.value}, {value}), {literal(target.text)})"
    return Cast(made, each.holds and f"arrayAll({name} -> {each.holds}, {value})")


def _map(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    (key_from, from_), (key_to, to) = one.inner, target.bare.inner
    key, of_key = casting.of_elements("k", lambda inner, k: inner.cast(k, key_from, key_to))
    name, each = casting.of_elements("v", lambda inner, v: inner.cast(v, from_, to))
    made = f"CAST(mapApply(({key}, {name}) -> ({of_key.value}, {each.value}), {value}), {literal(target.text)})"
    holds = _both((of_key.holds, each.holds))
    return Cast(made, holds and f"mapAll(({key}, {name}) -> {holds}, {value})")


def _tuple(casting: Casting, value: str, one: ColumnType, target: ColumnType) -> Cast:
    if not has_elements_of(one, target.bare):
        return Cast(casting.to(value, target))
    casts = [casting.cast(element, source, wanted) for element, source, wanted in elements_of(value, one, target.bare)]
    made = f"CAST(tuple({', '.join(each.value for each in casts)}), {literal(target.text)})"
    return Cast(made, _both(each.holds for each in casts))


def elements_of(value: str, one: ColumnType, wanted: ColumnType) -> list[tuple[str, ColumnType, ColumnType]]:
    """Each wanted element: its expression, its type and the type that it is to have."""
    if one.labels and wanted.labels:
        found = dict(zip(one.labels, one.inner, strict=True))
        pairs = zip(wanted.labels, wanted.inner, strict=True)
        return [(f"tupleElement({value}, {literal(label)})", found[label], inner) for label, inner in pairs]
    numbered = enumerate(zip(one.inner, wanted.inner, strict=True), start=1)
    return [(f"tupleElement({value}, {number})", *pair) for number, pair in numbered]


def has_elements_of(one: ColumnType, wanted: ColumnType) -> bool:
    """Whether a Tuple has all elements of another one, by their names, or by their number where they have none."""
    if one.labels and wanted.labels:
        return set(wanted.labels) <= set(one.labels)
    return len(one.inner) == len(wanted.inner)


CONTAINERS: dict[str, Callable[[Casting, str, ColumnType, ColumnType], Cast]] = {
    "Array": _array,
    "Map": _map,
    "Tuple": _tuple,
}


def _both(conditions: Iterable[str | None]) -> str | None:
    given = [each for each in conditions if each]
    return " AND ".join(given) or None


def roomy_type(column_type: ColumnType) -> ColumnType:
    """A type that holds whatever a text has for this one, so that what does not fit is seen afterwards.

    Args:
        column_type: An Array, Map or Tuple, or what is in one.
    """
    name, text = column_type.name, column_type.text
    if name in CONTAINERS or name in ("Nullable", "LowCardinality"):
        inner = [roomy_type(each) for each in column_type.inner]
        return inner[0] if name == "LowCardinality" else column_type.with_inner(inner)
    if _is_integer(column_type):
        return ColumnType("Int256")
    if name in ("Decimal", *_DATES, *_TIMES):
        return ColumnType("Decimal(76, 38)" if name == "Decimal" else "String")
    return ColumnType("Float64" if name == "Float32" else text)


def lacking_elements(one: ColumnType, target: ColumnType) -> tuple[str, ...]:
    """The named elements of a Tuple that the source lacks, at any depth; they would be defaults without a word.

    Args:
        one: The source's type.
        target: The column's type.
    """
    one, target = one.bare, target.bare
    if one.name != target.name or one.name not in CONTAINERS:
        return ()
    if one.name != "Tuple":
        pairs = zip(one.inner, target.inner, strict=False)
        return tuple(name for source, wanted in pairs for name in lacking_elements(source, wanted))
    found = dict(zip(one.labels, one.inner, strict=False))
    if not found or not target.labels:
        return ()
    return tuple(
        name
        for label, wanted in zip(target.labels, target.inner, strict=True)
        for name in ((identifier(label),) if label not in found else lacking_elements(found[label], wanted))
    )
