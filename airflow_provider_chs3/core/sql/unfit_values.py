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
    """The conditions for values that do not fit; no condition fails itself."""

    is_lossy: bool = False
    altered: tuple[str, ...] = ()
    hides_nulls: bool = False
    depth: int = 0

    def condition(self, value: str, source: ColumnType, target: ColumnType, *, may_be_null: bool) -> str | None:
        """Return the condition for values that do not fit; None if all fit, or it is unknown."""
        bare = source.bare
        other = shape_for(bare, target.bare) if bare.name in CONTAINERS else target.bare
        casting = Casting(hides_nulls=self.hides_nulls)
        if source.holds_null and bare.name == "Tuple":
            bad = self.condition(f"assumeNotNull({value})", bare, target, may_be_null=may_be_null)
            bad = bad and f"(isNotNull({value}) AND ({bad}))"
        elif bare.name == other.name and other.name in CONTAINERS:
            bad = self._container(value, bare, other)
        else:
            bad = self._scalar(value, bare, other)
        is_null = None if may_be_null or not source.holds_null else f"isNull({value})"
        is_hidden = is_of_nulls(value, bare) if casting.hides_null(source, may_be_null=may_be_null) else None
        conditions = [condition for condition in (is_null, is_hidden, bad) if condition]
        return f"({' OR '.join(conditions)})" if len(conditions) > 1 else "".join(conditions) or None

    def _scalar(self, value: str, source: ColumnType, other: ColumnType) -> str | None:
        casting = Casting(OR_NULL, self.is_lossy, self.altered)
        is_same = source.text == other.text and not casting.may_be_out_of_range(source)
        if is_same or {source.name, other.name} & {*CONTAINERS, *OPAQUE}:
            return None
        if other.name.startswith("Enum") and source.name in TEXTS:
            return f"(isNotNull({value}) AND {value} NOT IN ({', '.join(other.names)}))"
        cast = casting.cast(value, source, other)
        fits = all_hold((f"isNotNull({cast.value})", cast.holds))
        return f"(isNotNull({value}) AND NOT ifNull({fits}, 0))"

    def _container(self, value: str, source: ColumnType, other: ColumnType) -> str | None:
        if other.name == "Tuple":
            if not has_elements_of(source, other):
                return None
            conditions = [self._inner(*element) for element in elements_of(value, source, other)]
            return " OR ".join(filter(None, conditions)) or None
        inner = replace(self, depth=self.depth + 1)
        names = [f"{name}{inner.depth}" for name in ("kv" if other.name == "Map" else "v")]
        conditions = [inner._inner(*element) for element in zip(names, source.inner, other.inner, strict=True)]
        condition = " OR ".join(filter(None, conditions))
        exists = "mapExists" if other.name == "Map" else "arrayExists"
        return f"{exists}(({', '.join(names)}) -> ifNull({condition}, 0), {value})" if condition else None

    def _inner(self, value: str, source: ColumnType, target: ColumnType) -> str | None:
        return self.condition(value, source, target, may_be_null=target.holds_null)
