"""Find the values that do not fit, only after an insert has failed on one. No condition fails itself."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_chs3.core.sql.casts import (
    CONTAINERS,
    OPAQUE,
    Casting,
    elements_of,
    has_elements_of,
    is_of_nulls,
    shape_for,
)
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.server_casts import TEXTS, all_hold


def unfit_condition(
    casting: Casting, value: str, source: ColumnType, target: ColumnType, *, may_be_null: bool
) -> str | None:
    """Return the condition for values that a cast to NULL does not keep; None if all fit, or it is unknown."""
    bare = source.bare
    other = shape_for(bare, target.bare) if bare.name in CONTAINERS else target.bare
    if source.holds_null and bare.name == "Tuple":
        bad = unfit_condition(casting, f"assumeNotNull({value})", bare, target, may_be_null=may_be_null)
        bad = bad and f"(isNotNull({value}) AND ({bad}))"
    elif bare.name == other.name and other.name in CONTAINERS:
        bad = _of_container(casting, value, bare, other)
    else:
        bad = _of_scalar(casting, value, bare, other)
    is_null = None if may_be_null or not source.holds_null else f"isNull({value})"
    is_hidden = is_of_nulls(value, bare) if casting.hides_null(source, may_be_null=may_be_null) else None
    conditions = [condition for condition in (is_null, is_hidden, bad) if condition]
    return f"({' OR '.join(conditions)})" if len(conditions) > 1 else "".join(conditions) or None


def _of_scalar(casting: Casting, value: str, source: ColumnType, other: ColumnType) -> str | None:
    is_same = source.text == other.text and not casting.may_be_out_of_range(source)
    if is_same or {source.name, other.name} & {*CONTAINERS, *OPAQUE}:
        return None
    if other.name.startswith("Enum") and source.name in TEXTS:
        return f"(isNotNull({value}) AND {value} NOT IN ({', '.join(other.names)}))"
    cast = casting.cast(value, source, other)
    fits = all_hold((f"isNotNull({cast.value})", cast.holds))
    return f"(isNotNull({value}) AND NOT ifNull({fits}, 0))"


def _of_container(casting: Casting, value: str, source: ColumnType, other: ColumnType) -> str | None:
    if other.name == "Tuple":
        if not has_elements_of(source, other):
            return None
        conditions = [_of_element(casting, *element) for element in elements_of(value, source, other)]
        return " OR ".join(filter(None, conditions)) or None
    inner = replace(casting, depth=casting.depth + 1)
    names = [f"{name}{inner.depth}" for name in ("kv" if other.name == "Map" else "v")]
    conditions = [_of_element(inner, *element) for element in zip(names, source.inner, other.inner, strict=True)]
    condition = " OR ".join(filter(None, conditions))
    exists = "mapExists" if other.name == "Map" else "arrayExists"
    return f"{exists}(({', '.join(names)}) -> ifNull({condition}, 0), {value})" if condition else None


def _of_element(casting: Casting, value: str, source: ColumnType, target: ColumnType) -> str | None:
    return unfit_condition(casting, value, source, target, may_be_null=target.holds_null)
