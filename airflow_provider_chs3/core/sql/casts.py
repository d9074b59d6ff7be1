"""Cast a value of any type to another, with the condition that nothing of it was lost.

ClickHouse's own conversions drop what does not fit. So each cast here comes with a condition that the value is still
the one of the file: usually it casts back and compares. A lossy cast drops digits beyond the scale of a Decimal,
parts of a second and the time of day; everything else is compared nevertheless. Values in Arrays, Maps and Tuples are
cast one by one. A text that ClickHouse cannot parse becomes NULL silently if the type allows NULL.
docs/reference/values.md lists what is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.sql import number_casts, time_casts
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.sql.server_casts import (
    ALTERATIONS,
    DATES,
    ENUMS,
    FLOATS,
    OR_NULL,
    TEXTS,
    TIMES,
    TIMES_OF_DAY,
    Cast,
    ServerCasting,
    all_hold,
    cast_back,
    is_integer,
    kept_of,
)
from airflow_provider_chs3.core.sql.text_casts import holds_of_text, without_midnight

#: Types with fractions.
_FRACTIONS = (*FLOATS, "Decimal")
_WITH_SECONDS = (*TIMES, *TIMES_OF_DAY)
_ALL_TIMES = (*DATES, *_WITH_SECONDS)

#: Which pairs of types take more than the server's own conversion. The first that applies counts.
_SCALARS: tuple[
    tuple[Callable[[ColumnType, ColumnType], bool], Callable[[ServerCasting, str, ColumnType, ColumnType], Cast]], ...
] = (
    (lambda source, other: source.name in FLOATS and other.name in FLOATS, number_casts.to_float),
    (
        lambda source, other: other.name == "Bool" and (is_integer(source) or source.name in _FRACTIONS),
        number_casts.to_bool,
    ),
    (
        lambda source, other: (is_integer(source) or source.name in FLOATS) and other.name in ENUMS,
        number_casts.number_to_enum,
    ),
    (lambda source, other: source.name in ENUMS and other.name in ENUMS, number_casts.enum_to_enum),
    (lambda source, other: source.name in FLOATS and other.name == "Decimal", number_casts.float_to_decimal),
    (
        lambda source, other: other.name == "Decimal" and (source.name == "Decimal" or is_integer(source)),
        number_casts.to_decimal,
    ),
    (lambda source, other: source.name == "Decimal" and is_integer(other), number_casts.decimal_to_integer),
    (lambda source, other: source.name in _WITH_SECONDS and other.name in TIMES_OF_DAY, time_casts.to_time_of_day),
    (lambda source, other: source.name in TIMES_OF_DAY and other.name in (*DATES, *TIMES), time_casts.never),
    (lambda source, other: source.name == "Bool" and other.name in _ALL_TIMES, time_casts.never),
    (lambda source, other: source.name in _ALL_TIMES and other.name in ("Bool", *ENUMS), time_casts.never),
    (lambda source, other: source.name in _WITH_SECONDS and other.name == "Decimal", time_casts.time_to_decimal),
    (lambda source, other: source.name in _WITH_SECONDS and other.name in FLOATS, time_casts.time_to_float),
    (
        lambda source, other: source.name in _FRACTIONS and other.name in ("DateTime64", "Time64"),
        time_casts.number_to_time,
    ),
    (lambda source, other: source.name in TIMES and other.name in DATES, time_casts.time_to_date),
    (lambda source, other: source.name in TIMES and other.name in TIMES, time_casts.time_to_time),
    (lambda source, other: source.name in DATES and other.name in DATES, time_casts.compared),
    (lambda source, other: source.name in DATES and other.name in TIMES, time_casts.date_to_time),
    (lambda source, other: is_integer(source) and other.name in _ALL_TIMES, cast_back),
    (lambda source, other: source.name in _WITH_SECONDS and is_integer(other), time_casts.time_to_integer),
    (lambda source, other: source.name in DATES and is_integer(other), cast_back),
    (lambda source, other: is_integer(source) and other.name == "IPv4", number_casts.number_to_address),
)


#: ClickHouse converts their values as it sees fit, or not at all.
OPAQUE = ("JSON", "Object", "Variant", "Dynamic", "AggregateFunction", "Nothing")
#: The server's names for shapes → the types that they stand for.
_GEOMETRIES = {
    "Point": "Tuple(Float64, Float64)",
    "Ring": "Array(Point)",
    "LineString": "Array(Point)",
    "MultiLineString": "Array(LineString)",
    "Polygon": "Array(Ring)",
    "MultiPolygon": "Array(Polygon)",
}

#: Digits of the widest Decimal; and those behind its point, if half of them are enough before it.
_DIGITS, _PLACES = 76, 38


@dataclass(frozen=True)
class Casting(ServerCasting):
    """The way in which values are cast so that no loss goes unnoticed, those of containers one by one."""

    hides_nulls: bool = False
    depth: int = 0

    def cast(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        """Cast a value to the target's type."""
        if source.text == target.text and not self.may_be_out_of_range(source):
            return Cast(value)
        if source.holds_null and source.bare.name == "Tuple":
            return self._of_struct_or_null(value, source.bare, target)
        made = self._cast(value, source, target)
        if not self.hides_null(source, may_be_null=target.holds_null):
            return made
        return replace(made, holds=all_hold((f"NOT {is_of_nulls(value, source.bare)}", made.holds)))

    def hides_null(self, source: ColumnType, *, may_be_null: bool) -> bool:
        """Check whether a struct of NULLs may be NULL in the file, which should then be NULL."""
        return self.hides_nulls and may_be_null and source.name == "Tuple"

    def _of_struct_or_null(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        """Cast a struct that may be NULL: its elements are read as those of one that is not."""
        made = self.cast(f"assumeNotNull({value})", source, target)
        if not target.holds_null:
            return replace(made, holds=all_hold((f"isNotNull({value})", made.holds)))
        null = f"CAST(NULL, {literal(target.text)})"
        # A cast that the condition shares with the value is run by WHERE for every row, also where the struct is NULL.
        apart = replace(self, function=OR_NULL).cast(f"assumeNotNull({value})", source, target).holds
        holds = apart and f"(isNull({value}) OR {apart})"
        return Cast(f"if(isNull({value}), {null}, {made.value})", holds)

    def _cast(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        bare, other = source.bare, target.bare
        if bare.name in CONTAINERS and other.name in _GEOMETRIES:
            made = self.cast(value, source, shape_for(bare, other))
            return replace(made, value=f"CAST({made.value}, {literal(target.text)})")
        if other.name in CONTAINERS and bare.name in TEXTS:
            roomy = roomy_type(target if target.holds_null else other)
            return self.cast(f"CAST({value}, {literal(roomy.text)})", roomy, target)
        if other.name in CONTAINERS and other.name == bare.name:
            return CONTAINERS[other.name](self, value, bare, target)
        if bare.name in TEXTS and is_variant_of_scalars(other):
            return _text_to_variant(value, target)
        if other.name in (*CONTAINERS, *OPAQUE) or bare.name in (*CONTAINERS, *OPAQUE):
            of_any = f"CAST({value}, {literal(target.text)})" if bare.name in TEXTS else self.to(value, target)
            return Cast(of_any, self._for_any_type(value, bare, source))
        made = self.scalar(value, bare, target)
        return replace(made, holds=_for_nulls(made, value, source, target))

    def may_be_out_of_range(self, source: ColumnType) -> bool:
        """Check whether values must be tested even if they keep their type: ClickHouse cannot show all times."""
        return any(source.parts("DateTime64", *(ALTERATIONS[alteration].type for alteration in self.altered)))

    def _for_any_type(self, value: str, bare: ColumnType, source: ColumnType) -> str | None:
        """Test moments beyond the calendar: a column of any type shows them as the calendar's first or last."""
        in_range = [time_casts.in_range(value, bare, bare)] if bare.name == "DateTime64" else []
        holds = all_hold((*kept_of(value, bare.name, self.altered), *in_range))
        return holds and _unless_null(holds, value, source)

    def of_elements(self, column: str, cast: Callable[[Casting, str], Cast]) -> tuple[str, Cast]:
        """Return the name of a lambda's argument, and its cast."""
        name = f"{column}{self.depth + 1}"
        return name, cast(replace(self, depth=self.depth + 1), name)

    def scalar(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        """Cast a value to the target's type."""
        made = self._scalar(value, source, target)
        return Cast(made.value, all_hold((*kept_of(value, source.name, self.altered), made.holds)))

    def _scalar(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        other = target.bare
        made = self.to(value, target)
        if source.text == other.text:
            return Cast(made, time_casts.in_range(made, source, other) if other.name == "DateTime64" else None)
        if source.name == "FixedString" and other.name in TEXTS:
            # The server's own conversion drops zero bytes at the end, and fails over a file without a row.
            return Cast(self.to(f"concat({value}, '')", target))
        if source.name == "DateTime64" and other.name in TEXTS:
            # Beyond the calendar the text is that of its first or last moment.
            text = self._scalar(f"toString({value})", ColumnType("String"), target)
            return Cast(text.value, all_hold((time_casts.in_range(value, source, source), text.holds)))
        if other.name == "FixedString" and source.name not in TEXTS:
            # Servers cast nothing but texts to that.
            return self._scalar(f"toString({value})", ColumnType("String"), target)
        if source.name in DATES and other.name in _FRACTIONS:
            # By its days, as with integers: servers cast no Date32 to a Decimal (44).
            return self.scalar(f"toInt32({value})", ColumnType("Int32"), target)
        if source.name == "Decimal" and other.name in ("Time", "DateTime", *DATES, *ENUMS):
            # Servers have no such cast (44, 70).
            number = self._scalar(self.to(value, ColumnType("Nullable(Int64)")), ColumnType("Int64"), target)
            return Cast(number.value, all_hold((f"trunc({value}) = {value}", number.holds)))
        if source.name in TEXTS:
            return self._of_text(value, source, target)
        for applies, cast in _SCALARS:
            if applies(source, other):
                return cast(self, value, source, target)
        return Cast(made)

    def _of_text(self, value: str, source: ColumnType, target: ColumnType) -> Cast:
        other, parsed = target.bare, value
        if (source.name, other.name) == ("FixedString", "UUID"):
            # Bytes that a file declares as a UUID; others were refused before.
            return Cast(self.to(f"UUIDNumToString({value})", target))
        if other.name in DATES:
            parsed = value = without_midnight(value)
        if other.name == "DateTime" and (target.holds_null or self.function == OR_NULL):
            # Where NULL fits, 25.8 casts ClickHouse's own form alone.
            zone = f", {literal(other.time_zone)}" if other.time_zone else ""
            parsed = f"parseDateTimeBestEffortOrNull({value}{zone})"
        made = self.to(parsed, target)
        return Cast(made, holds_of_text(value, made, other, is_lossy=self.is_lossy))


def _for_nulls(made: Cast, value: str, source: ColumnType, target: ColumnType) -> str | None:
    """Test for NULL: what does not fit a Nullable type becomes NULL although the value was not."""
    if source.bare.text == target.bare.text or not target.holds_null:
        holds = made.holds
    else:
        holds = all_hold((f"isNotNull({made.value})", made.holds))
    return holds and _unless_null(holds, value, source)


def _unless_null(holds: str, value: str, source: ColumnType) -> str:
    return f"(isNull({value}) OR ifNull({holds}, 0))" if source.holds_null else holds


def _array(casting: Casting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    name, element = casting.of_elements("v", lambda inner, v: inner.cast(v, source.inner[0], target.bare.inner[0]))
    made = f"CAST(arrayMap({name} -> {element.value}, {value}), {literal(target.text)})"
    return Cast(made, element.holds and f"arrayAll({name} -> {element.holds}, {value})")


def _map(casting: Casting, value: str, source: ColumnType, target: ColumnType) -> Cast:
    (key_from, from_), (key_to, to) = source.inner, target.bare.inner
    key, of_key = casting.of_elements("k", lambda inner, k: inner.cast(k, key_from, key_to))
    name, of_value = casting.of_elements("v", lambda inner, v: inner.cast(v, from_, to))
    made = f"CAST(mapApply(({key}, {name}) -> ({of_key.value}, {of_value.value}), {value}), {literal(target.text)})"
    holds = all_hold((of_key.holds, of_value.holds))
    return Cast(made, holds and f"mapAll(({key}, {name}) -> {holds}, {value})")


def _tuple(casting: Casting, value: str, tuple_type: ColumnType, target: ColumnType) -> Cast:
    if not has_elements_of(tuple_type, target.bare):
        return Cast(casting.to(value, target))
    casts = [
        casting.cast(element, source, wanted) for element, source, wanted in elements_of(value, tuple_type, target.bare)
    ]
    made = f"CAST(tuple({', '.join(cast.value for cast in casts)}), {literal(target.text)})"
    return Cast(made, all_hold(cast.holds for cast in casts))


def elements_of(value: str, source: ColumnType, wanted: ColumnType) -> list[tuple[str, ColumnType, ColumnType]]:
    """Return each wanted element: its expression, its type and its target type."""
    if source.labels and wanted.labels:
        by_label = dict(zip(source.labels, source.inner, strict=True))
        pairs = zip(wanted.labels, wanted.inner, strict=True)
        return [(f"tupleElement({value}, {literal(label)})", by_label[label], inner) for label, inner in pairs]
    numbered = enumerate(zip(source.inner, wanted.inner, strict=True), start=1)
    return [(f"tupleElement({value}, {number})", *pair) for number, pair in numbered]


def has_elements_of(source: ColumnType, wanted: ColumnType) -> bool:
    """Check whether a Tuple has all elements of another one, by name, or by number if they have no names."""
    if source.labels and wanted.labels:
        return set(wanted.labels) <= set(source.labels)
    return len(source.inner) == len(wanted.inner)


def is_of_nulls(struct: str, of: ColumnType) -> str:
    """Return the condition that a struct has nothing but NULLs, or the values that servers read in place of them."""
    conditions = []
    for value, inner, _ in elements_of(struct, of, of):
        if inner.holds_null:
            conditions.append(f"isNull({value})")
        elif inner.name == "Tuple":
            conditions.append(is_of_nulls(value, inner))
        else:
            conditions.append(f"{value} = defaultValueOfTypeName({literal(inner.text)})")
    return f"({' AND '.join(conditions) or 1})"


def shape_for(source: ColumnType, wanted: ColumnType) -> ColumnType:
    """Return the type that a geometry consists of, with the names of a Point's coordinates if the source has them."""
    if wanted.name == "Point" and set(source.labels) == {"x", "y"}:
        return ColumnType("Tuple(x Float64, y Float64)")
    return ColumnType(_GEOMETRIES[wanted.name]) if wanted.name in _GEOMETRIES else wanted


CONTAINERS: dict[str, Callable[[Casting, str, ColumnType, ColumnType], Cast]] = {
    "Array": _array,
    "Map": _map,
    "Tuple": _tuple,
}


def is_variant_of_scalars(of: ColumnType) -> bool:
    """Check whether a type is a Variant of types whose values have one text each."""
    return of.name == "Variant" and not any(inner.bare.name in (*CONTAINERS, *OPAQUE) for inner in of.inner)


def _text_to_variant(value: str, target: ColumnType) -> Cast:
    """Let the server choose the type if the value has the same text again: 007 is no number if it may be text."""
    made = f"CAST({value}, {literal(target.text)})"
    same = f"toString({made}) = {value}"
    if any(inner.bare.name == "String" for inner in target.bare.inner):
        return Cast(f"CAST(if({same}, {made}, {value}), {literal(target.text)})")
    is_number = f"toFloat64OrNull(toString({made})) = toFloat64OrNull({value})"
    return Cast(made, f"(isNull({value}) OR ifNull({same}, 0) OR ifNull({is_number}, 0))")


def roomy_type(column_type: ColumnType) -> ColumnType:
    """Return a type that holds all that a text contains, so that what does not fit shows afterwards."""
    name, text = column_type.name, column_type.text
    if name in CONTAINERS or name in ("Nullable", "LowCardinality"):
        inner = [roomy_type(inner_type) for inner_type in column_type.inner]
        return inner[0] if name == "LowCardinality" else column_type.with_inner(inner)
    if is_integer(column_type):
        return ColumnType("Int256")
    if name == "Decimal":
        # Digits behind the last place are cut without a word: as many places as leave room for what is before them.
        before = column_type.precision - column_type.scale
        places = max(_PLACES, column_type.scale + 1, _DIGITS - before)
        return ColumnType(f"Decimal({_DIGITS}, {min(_DIGITS, places)})")
    if name in (*DATES, *TIMES, *TIMES_OF_DAY, "UUID"):
        return ColumnType("String")
    return ColumnType("Float64" if name == "Float32" else text)
