"""The current partition of a period on one node, its parts, and the mutations that are about it.

A mutation of one period (`ALTER TABLE … DELETE IN PARTITION …`) gives the parts of all periods of a plain table its
number as their version, at once or when its turn comes: those of the others as links to the same files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from typing import Any, Self, TypeAlias

from airflow_provider_chs3.core.sql.quoting import without_quoted

#: A partition with more parts is recorded without them: at that number, servers refuse INSERTs, and merges continue.
MOST_PARTS = 3_000

#: The partition that a part is of: the patches of lightweight updates are in `patch-<hash>-<id>` beside it.
PARTITION = "replaceRegexpOne(partition_id, '^patch-[^-]*-', '')"

_OWN = "(rows > 0 AND NOT startsWith(partition_id, 'patch-'))"
#: Digits of `Part.content` for its data.
DATA_DIGITS = 16
#: Hashes of the data, and of the files beside it. The second is equal for other rows of the same shape, and another if
#: a column of a compact part is renamed, which leaves its data as they are; `hash_of_all_files` depends on codecs.
CONTENT = (
    f"concat(substring(uncompressed_hash_of_compressed_files, 1, {DATA_DIGITS}), "
    "substring(hash_of_uncompressed_files, 1, 8))"
)


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """An active part that holds rows."""

    min_block: int
    max_block: int
    level: int
    data_version: int
    rows: int
    content: str = ""
    patches: str = ""
    hides_rows: int = 0

    @property
    def data(self) -> str:
        """The beginning of a hash of its data."""
        return self.content[:DATA_DIGITS]

    @property
    def without_content(self) -> tuple[int | str, ...]:
        """All of it but `content`, which is not always requested."""
        numbers = (self.min_block, self.max_block, self.level, self.data_version, self.rows, self.hides_rows)
        return (*numbers, self.patches)

    @property
    def mutation(self) -> int:
        """The number of the last mutation that was applied to it; 0 if none was."""
        return self.data_version if self.data_version > self.max_block else 0


def _part(content: str) -> str:
    return (
        f"(min_block_number, max_block_number, toUInt32(level), data_version, rows, {content}, "
        "if(startsWith(partition_id, 'patch-'), partition_id, ''), has_lightweight_delete)"
    )


def sources_query(of_parts: str, *, by: str = "") -> str:
    """Return the query for parts that merges may have joined: servers show them for `old_parts_lifetime`, 8 minutes.

    Parts without rows count, too: merges join the one with which REPLACE PARTITION covers the old parts.
    """
    keys = f"{by}, partition_id" if by else "partition_id"
    return f"SELECT {keys}, groupArray({_part(CONTENT)}) FROM system.parts WHERE {of_parts} GROUP BY {keys}"


def partition_states(of_tables: str, *, by: str = "", with_content: bool = True, more: str = "") -> str:
    """Return the SELECT of partitions as the ledger compares them.

    It gives a tuple `found` of `by`, id, what `PartitionState.of` parses, and `more`. Parts without rows do not count:
    REPLACE PARTITION covers the old parts with one, which is active again after a restart. A lightweight update leaves
    the parts unchanged, and writes patches beside them.
    """
    keys, part = f"{by}, " if by else "", _part(CONTENT if with_content else "''")
    state = (
        f"sumIf(rows, {_OWN}), countIf({_OWN}), sumIf(bytes_on_disk, {_OWN}), minIf(min_block_number, {_OWN}), "
        f"maxIf(max_block_number, {_OWN}), max(data_version), groupArrayIf({MOST_PARTS + 1})({part}, rows > 0)"
    )
    # Not `partition`, which is a column.
    columns = f"{keys}{PARTITION} AS id, ({state}){more and f', {more}'}"
    return f"SELECT ({columns}) AS found FROM system.parts WHERE {of_tables} AND active GROUP BY {keys}id"


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of parts, regardless of their block numbers."""

    rows: int = 0
    of_parts: tuple[str, ...] | None = ()

    def has_parts_of(self, other: Contents) -> bool:
        """Check whether both are known to be of the same parts."""
        return self.of_parts is not None and Counter(self.of_parts) == Counter(other.of_parts or ())


NOTHING_BESIDE = Contents()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The recorded evidence of a partition on one node."""

    rows: int
    parts: tuple[Part, ...] | None
    rows_of_shards: Mapping[int, int] = field(default_factory=dict)
    beside: Contents = NOTHING_BESIDE
    last_mutation: int = 0
    lasts: bool = False

    # A comparison asks for the evidence of each node several times.
    @classmethod
    @lru_cache(maxsize=64)
    def of_text(cls, text: str) -> Evidence:
        """Parse the text of `as_text`."""
        told: dict[str, Any] = json.loads(text)
        parts: Sequence[Sequence[Any]] | None = told["parts"]
        beside_rows, of_parts = told.get("beside", (0, ()))
        return cls(
            rows=told["rows"],
            parts=None if parts is None else tuple(Part(*part) for part in parts),
            rows_of_shards={int(shard): rows for shard, rows in told.get("rows_of_shards", {}).items()},
            beside=Contents(beside_rows, None if of_parts is None else tuple(of_parts)),
            last_mutation=told.get("last_mutation", 0),
            lasts=told.get("lasts", False),
        )

    def as_text(self) -> str:
        """Return compact JSON."""
        told: dict[str, Any] = {"rows": self.rows, "parts": self.parts and [_short(part) for part in self.parts]}
        further = {
            "rows_of_shards": dict(self.rows_of_shards),
            "beside": astuple(self.beside) if self.beside.rows else (),
            "last_mutation": self.last_mutation,
            "lasts": self.lasts,
        }
        told |= {name: value for name, value in further.items() if value}
        return json.dumps(told, separators=(",", ":"))


def _short(part: Part) -> list[Any]:
    """Return its fields, without those at the end that have their usual value."""
    fields = list(astuple(part))
    while fields[-1] in ("", 0) and len(fields) > len(_ALWAYS):
        fields.pop()
    return fields


_ALWAYS = ("min_block", "max_block", "level", "data_version", "rows")


Broken: TypeAlias = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The active parts of one period on one node."""

    rows: int = 0
    parts: int = 0
    size_bytes: int = 0
    min_block: int = 0
    max_block: int = 0
    data_version: int = 0
    each_part: tuple[Part, ...] | None = ()
    mutations: tuple[Mutation, ...] = ()
    partition_id: str = ""
    shown: str = ""
    broken: Broken = ()
    lasts: bool = False
    sources: tuple[Part, ...] = ()

    @classmethod
    def of(
        cls,
        partition_id: str,
        fields: Sequence[Any],
        mutations: tuple[Mutation, ...] = (),
        *,
        shown: str = "",
        broken: Broken = (),
    ) -> Self:
        """Parse a node's answer."""
        rows, count, size_bytes, min_block, max_block, data_version, parts = fields
        each_part = tuple(sorted(Part(*part) for part in parts)) if len(parts) <= MOST_PARTS else None
        numbers = (rows, count, size_bytes, min_block, max_block, data_version)
        return cls(*numbers, each_part, mutations, partition_id, shown, broken)

    def has_broken(self, part: Part) -> bool:
        """Check whether the server put a part aside that has the rows of another one."""
        return any(
            of == self.partition_id and first <= part.min_block and part.max_block <= last
            for of, first, last in self.broken
        )

    @property
    def contents(self) -> Contents:
        """The contents of its parts."""
        parts = self.each_part
        return Contents(self.rows, None if parts is None else tuple(part.content for part in parts))

    @property
    def last_mutation(self) -> int:
        """The highest number of a mutation whose blocks this partition counts; 0 without one."""
        return max((mutation.number for mutation in self.mutations if mutation.counts_in(self.partition_id)), default=0)

    def evidence(
        self, rows_of_shards: Mapping[int, int] | None = None, *, beside: Contents = NOTHING_BESIDE
    ) -> Evidence:
        """Return the evidence to record."""
        return Evidence(
            rows=self.rows,
            parts=self.each_part,
            rows_of_shards=rows_of_shards or {},
            beside=beside,
            last_mutation=self.last_mutation if rows_of_shards is None else 0,
            lasts=self.lasts,
        )


def total(states: Iterable[PartitionState], nothing: PartitionState) -> PartitionState:
    """Return the sums of a period's partitions."""
    filled = [state for state in states if state.parts]
    parts = [state.each_part for state in filled]
    return replace(
        nothing,
        rows=sum(state.rows for state in filled),
        parts=sum(state.parts for state in filled),
        size_bytes=sum(state.size_bytes for state in filled),
        min_block=min((state.min_block for state in filled), default=0),
        max_block=max((state.max_block for state in filled), default=0),
        data_version=max((state.data_version for state in filled), default=0),
        each_part=None if None in parts else tuple(part for of_partition in parts for part in of_partition or ()),
    )


_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'", re.DOTALL)
_DROP = re.compile(r"\(?DROP COLUMN (?:IF EXISTS )?(?:`((?:[^`\\]|\\.)+)`|([\w.]+))\)?")
_NAME = r"(?:`(?:[^`\\]|\\.)+`|[\w.]+)"
#: Commands about data that parts have beside their rows.
_BESIDE_ROWS = re.compile(
    rf"\(?(?:DROP|CLEAR|MATERIALIZE) (?:INDEX|PROJECTION|STATISTICS) (?:IF EXISTS )?{_NAME}(?:, {_NAME})*"
    r"(?: IN PARTITION [^,]+)?\)?"
)
_RENAME = re.compile(r"\bRENAME COLUMN\b")
_SCOPE = re.compile(r"\bIN PARTITION\b")
#: As the server writes a command: a partition's id, or the value of a key such as 202604 or '2026-04-01'.
_OF_ONE = re.compile(r"IN PARTITION (?:ID '(?P<id>[^'\\]*)'|'?(?P<value>\d[\d-]*)'?)(?= WHERE |\)|$)")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One command of a mutation, as shown by `system.mutations`.

    Its number counts blocks of its partition, or of a whole plain table, and becomes the version of parts that it has
    passed. It waits for partitions that have parts left to change. `is_of_gone`: it dropped a column that is not there.
    """

    number: int
    partition_id: str
    command: str
    is_done: bool
    waiting: tuple[str, ...] = ()
    is_of_gone: bool = False

    @property
    def dropped_column(self) -> str:
        """The column that it has dropped; empty if it does anything else, or is not done."""
        match = _DROP.fullmatch(self.command) if self.is_done else None
        return re.sub(r"\\(.)", r"\1", match[1] or match[2]) if match else ""

    @property
    def leaves_rows(self) -> bool:
        """Return whether it changes no row that the table shows now."""
        return self.is_of_gone or bool(_BESIDE_ROWS.fullmatch(self.command))

    @property
    def shown(self) -> str:
        """Its command for people, without values: an erasure names what is erased."""
        head, where, _ = _TEXT.sub("'…'", self.command).removeprefix("(").removesuffix(")").partition(" WHERE ")
        return f"{head}{where and ' WHERE …'}{'' if self.is_done else ' (unfinished)'}"

    @property
    def renames(self) -> bool:
        """Return whether it renames a column."""
        return bool(_RENAME.search(without_quoted(self.command)))

    def counts_in(self, partition_id: str) -> bool:
        """Check whether its number counts the blocks of a partition."""
        return self.partition_id in ("", partition_id)

    def concerns(self, partition_id: str) -> bool:
        """Check whether it may change rows of a partition, as far as the table shows them now."""
        if self.leaves_rows:
            return False
        if self.partition_id:
            return self.counts_in(partition_id)
        return not _is_of_another(self.command, partition_id)


def mutations_query(condition: str, *, group: str = "") -> str:
    """Return a scalar subquery for all mutations that servers remember, by default the last hundred of a table."""
    waiting = "if(is_done, [], arrayDistinct(arrayMap(part -> splitByChar('_', part)[1], parts_to_do_names)))"
    blocks = "arrayZip(`block_numbers.partition_id`, `block_numbers.number`)"
    tuples = f"arrayMap(block -> (block.2, block.1, command, is_done, {waiting}), {blocks})"
    if not group:
        return f"(SELECT groupArrayArray({tuples}) FROM system.mutations WHERE {condition})"
    all_of = f"SELECT ({group}, groupArrayArray({tuples})) AS found FROM system.mutations"
    return f"(SELECT groupArray(found) FROM ({all_of} WHERE {condition} GROUP BY {group}))"


def mutations_of(rows: Iterable[tuple[int, str, str, int, list[str]]]) -> tuple[Mutation, ...]:
    """Parse the answer to `mutations_query`."""
    return tuple(
        Mutation(number, partition_id, command, bool(is_done), tuple(waiting))
        for number, partition_id, command, is_done, waiting in rows
    )


def wait_for(mutations: Iterable[Mutation], partition_id: str) -> bool:
    """Check whether a mutation still has to change rows of a partition, or fails to."""
    return any(
        not mutation.is_done and partition_id in mutation.waiting and mutation.concerns(partition_id)
        for mutation in mutations
    )


def are_elsewhere(mutations: Iterable[Mutation], partition_id: str, *, after: int, version: int) -> bool:
    """Check whether a part got its version from mutations of other partitions alone."""
    passed = [
        mutation for mutation in mutations if after < mutation.number <= version and mutation.counts_in(partition_id)
    ]
    return any(mutation.number == version for mutation in passed) and not any(
        mutation.concerns(partition_id) for mutation in passed
    )


def _is_of_another(command: str, partition_id: str) -> bool:
    """Check whether a command names another partition, in a form that is understood."""
    scopes = [match.start() for match in _SCOPE.finditer(without_quoted(command))]
    matched = _OF_ONE.match(command, scopes[0]) if len(scopes) == 1 else None
    if matched is None:
        return False
    if matched["id"] is not None:
        return matched["id"] != partition_id
    # Only the form of this table's ids can be compared: 2026-04-01 is 20260401 if partitions are days.
    number = matched["value"].replace("-", "")
    return partition_id.isdecimal() and len(number) == len(partition_id) and number != partition_id
