"""Digests of rows, in any order: whether a table holds the rows of objects, and which objects differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.core.model.models import AsJson, TableName
from airflow_provider_chs3.core.sql.column_types import ColumnType
from airflow_provider_chs3.core.sql.quoting import literal
from airflow_provider_chs3.core.steps.operations import Row
from airflow_provider_chs3.core.target.table_facts import Column
from airflow_provider_chs3.exceptions import ConfigurationError

#: Sums of hashes wrap as the servers' own.
_MODULUS = 2**64
#: `cityHash64` makes NULL of these types, for NULL itself, or the hash of something that is not NULL.
_CONTAINERS = re.compile(r"\b(?:Array|Tuple|Map|Nested|Variant|Dynamic)\b")
#: Its bytes follow the order in which its keys came; its text does not.
_JSON = re.compile(r"\b(?:JSON|Object)\b")
#: Aggregated values are not written as they were read.
_STATES = re.compile(r"\bAggregateFunction\b")


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of some rows: equal for the same rows in any order, each as often."""

    rows: int
    #: The sums of hashes of the rows, and of each column's values.
    sums: tuple[int, ...]
    #: The least hash of a row, by which one of them can be looked for; None of sums and differences.
    least: int | None = None

    @classmethod
    def by_key(cls, answer: Iterable[Row]) -> dict[Any, Digest]:
        """Parse an answer: in each row a key, and the columns of `digest_columns`."""
        return {key: cls(rows, tuple(sums), least) for key, rows, sums, least in answer}

    @classmethod
    def total(cls, digests: Iterable[Digest]) -> Digest:
        """Return the digest of all rows of several."""
        every = list(digests)
        sums = zip(*(digest.sums for digest in every if digest.rows), strict=True)
        return cls(sum(digest.rows for digest in every), tuple(sum(values) % _MODULUS for values in sums))

    def times(self, number: int) -> Digest:
        """Return the digest of the same rows, each so many times as often; less than none for what is missing."""
        return Digest(self.rows * number, tuple(value * number % _MODULUS for value in self.sums))

    def without(self, other: Digest) -> Digest:
        """Return what it has more than another, or less."""
        return Digest.total(digest for digest in (self, other.times(-1)) if digest.rows)

    def is_of(self, other: Digest) -> bool:
        """Check whether both are of the same rows."""
        return self.rows == other.rows and (not self.rows or self.sums == other.sums)

    def columns_unlike(self, other: Digest, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns whose values differ, where there are as many rows; none if only rows do."""
        sums = zip(names, self.sums[2:], other.sums[2:], strict=True)
        return tuple(name for name, value, another in sums if value != another)


NO_ROWS = Digest(0, ())


def has_digest(column_type: str) -> bool:
    """Check whether values of a type have bytes that follow from what was read."""
    return not _STATES.search(column_type)


def digest_columns(values: Sequence[tuple[str, str]]) -> str:
    """Return the columns of a SELECT for the digest of rows.

    A row's hash differs wherever a value does: NULL from the default, -0 from 0, one column's end from another's.
    """
    of_columns = (f"({_hash(*column)} AS {_name(number)})" for number, column in enumerate(values))
    sums = (
        f"(cityHash64({', '.join(of_columns)}) AS `chs3: row`)",
        "intHash64(`chs3: row`)",
        *map(_name, range(len(values))),
    )
    return f"count(), [{', '.join(f'sum({value})' for value in sums)}], min(`chs3: row`)"


def hash_of_row(values: Sequence[tuple[str, str]]) -> str:
    """Return the expression for a row's hash, of which a digest has the sum and the least."""
    return f"cityHash64({', '.join(_hash(*column) for column in values)})"


def _name(number: int) -> str:
    # No column is called so.
    return f"`chs3: value {number}`"


def _written(expression: str, column_type: str) -> str:
    if _JSON.search(column_type):
        # The text of 1 is that of 1.0; of JSON within other types, no function returns the types of its values.
        types = f" || toString(mapSort(JSONAllPathsWithTypes({expression})))" if column_type.startswith("JSON") else ""
        return f"toString({expression}){types}"
    # 0 / 0 has another sign than `nan` in a file.
    is_float = ColumnType(column_type).bare.name in ("Float32", "Float64")
    return f"if(isNaN({expression}), CAST('nan', {literal(column_type)}), {expression})" if is_float else expression


def _hash(expression: str, column_type: str) -> str:
    """Return the expression for a value's hash, which is never NULL: one of several arguments would be NULL with it."""
    written = _written(expression, column_type)
    if _CONTAINERS.search(ColumnType(column_type).text):
        return f"cityHash64(formatRow('RowBinary', {written}))"
    return f"ifNull(cityHash64({written}), 1)"


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectFinding(AsJson):
    """An object whose rows the table does not hold as they are."""

    path: str
    status: str
    source_rows: int
    rows: int | None


def findings_by_column(
    in_table: Mapping[str, Digest], in_objects: Mapping[str, Digest], *, has_all: bool
) -> list[ObjectFinding]:
    """Compare object by object."""
    by_path, others = _by_path(in_table, in_objects)
    findings = [
        ObjectFinding(path=path, status=status, source_rows=digest.rows, rows=held.rows)
        for path, digest in in_objects.items()
        if (status := _status(held := by_path.get(path, NO_ROWS), digest))
    ]
    if has_all:
        findings += [
            ObjectFinding(path=name, status="unlisted", source_rows=0, rows=others[name].rows) for name in others
        ]
    return findings


def findings_by_difference(more: Digest, in_objects: Mapping[str, Digest]) -> list[ObjectFinding]:
    """Return the one object whose rows are exactly what a table has too many, or too few; none if it is not one."""
    for path, digest in in_objects.items():
        if not digest.rows or more.rows % digest.rows:
            continue
        times = more.rows // digest.rows
        if times >= -1 and times and digest.times(times).is_of(more):
            status = "missing" if times < 0 else "doubled"
            return [ObjectFinding(path=path, status=status, source_rows=digest.rows, rows=digest.rows * (1 + times))]
    return []


def check_object_column(name: str, target: TableName, columns: Iterable[Column]) -> None:
    """Check that a column can hold the path, key or name of objects."""
    types = {column.name: column.type for column in columns}
    if name not in types:
        raise ConfigurationError(f"object_column={name!r}: {target} has no such column.")
    if ColumnType(types[name]).bare.name != "String":
        raise ConfigurationError(
            f"object_column={name!r} is {types[name]} in {target}, which holds no path, key or name of an object: name "
            "a column of text, or none."
        )


def names_of(path: str) -> tuple[str, ...]:
    """Return the values that a column may have for the rows of an object: its path, key or name."""
    return tuple(dict.fromkeys((path, path.partition("/")[2], path.rpartition("/")[2])))


def _by_path(in_table: Mapping[str, Digest], in_objects: Iterable[str]) -> tuple[dict[str, Digest], dict[str, Digest]]:
    """Return the table's rows by the objects' paths, and those of other objects by what the table calls them."""
    paths = defaultdict[str, list[str]](list)
    for path in in_objects:
        for name in names_of(path):
            paths[name].append(path)
    by_path, others = dict[str, Digest](), dict[str, Digest]()
    for name, digest in in_table.items():
        # As of s3://bucket/key and https://bucket.host/key, only the end is the object's.
        matching = paths.get(name) or paths.get(name.partition("://")[2]) or []
        if len(matching) > 1:
            raise ConfigurationError(
                f"The object column holds {name!r}, which {matching[0]} and {matching[1]} are both called: name a "
                "column with the objects' paths, or none."
            )
        place, key = (by_path, matching[0]) if matching else (others, name)
        place[key] = Digest.total([digest, *([place[key]] if key in place else [])])
    return by_path, others


def _status(held: Digest, digest: Digest) -> str:
    if held.is_of(digest):
        return ""
    if not held.rows:
        return "missing"
    times = held.rows // digest.rows if digest.rows else 0
    return "doubled" if times > 1 and digest.times(times).is_of(held) else "stale"
