"""Find the values that do not fit, only after an insert has failed on one."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from airflow_provider_chs3.core.sql.server_casts import OR_NULL, TEXTS, all_hold


@dataclass(frozen=True)
class Misfits:
    """The conditions for values that do not fit, none of which fails itself."""

    is_lossy: bool = False
    altered: tuple[str, ...] = ()
    hides_nulls: bool = False
    depth: int = 0

    def condition(self, value: str, source: ColumnType, target: ColumnType, *, may_be_null: bool) -> str | None:
        """Return the condition for values that do not fit; None if all fit, or it is unknown."""
        one = source.bare
        other = shape_for(one, target.bare) if one.name in CONTAINERS else target.bare
        casting = Casting(hides_nulls=self.hides_nulls)
        if source.holds_null and one.name == "Tuple":
            bad = self.condition(f"assumeNotNull({value})", one, target, may_be_null=may_be_null)
            bad = bad and f"(isNotNull({value}) AND ({bad}))"
        elif one.name == other.name and other.name in CONTAINERS:
            bad = self._container(value, one, other)
        else:
            bad = self._scalar(value, one, other)
        is_null = None if may_be_null or not source.holds_null else f"isNull({value})"
        is_hidden = is_of_nulls(value, one) if casting.hides_null(source, may_be_null=may_be_null) else None
        found = [each for each in (is_null, is_hidden, bad) if each]
        return f"({' OR '.join(found)})" if len(found) > 1 else "".join(found) or None

    def _scalar(self, value: str, one: ColumnType, other: ColumnType) -> str | None:
        casting = Casting(OR_NULL, self.is_lossy, self.altered)
        is_same = one.text == other.text and not casting.may_be_out_of_range(one)
        if is_same or {one.name, other.name} & {*CONTAINERS, *OPAQUE}:
            return None
        if other.name.startswith("Enum") and one.name in TEXTS:
            return f"(isNotNull({value}) AND {value} NOT IN ({', '.join(other.names)}))"
        cast = casting.cast(value, one, other)
        fits = all_hold((f"isNotNull({cast.value})", cast.holds))
        return f"(isNotNull({value}) AND NOT ifNull({fits}, 0))"

    def _container(self, value: str, one: ColumnType, other: ColumnType) -> str | None:
        if other.name == "Tuple":
            if not has_elements_of(one, other):
                return None
            each = [self._inner(*element) for element in elements_of(value, one, other)]
            return " OR ".join(filter(None, each)) or None
        inner = replace(self, depth=self.depth + 1)
        names = [f"{name}{inner.depth}" for name in ("kv" if other.name == "Map" else "v")]
        found = [inner._inner(*each) for each in zip(names, one.inner, other.inner, strict=True)]
        condition = " OR ".join(filter(None, found))
        exists = "mapExists" if other.name == "Map" else "arrayExists"
        return f"{exists}(({', '.join(names)}) -> ifNull({condition}, 0), {value})" if condition else None

    def _inner(self, value: str, source: ColumnType, target: ColumnType) -> str | None:
        return self.condition(value, source, target, may_be_null=target.holds_null)
