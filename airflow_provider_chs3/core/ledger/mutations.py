"""Mutations of a table, and which periods they are about.

A mutation of one period (`ALTER TABLE … DELETE IN PARTITION …`) gives the parts of all periods of a plain table its
number as their version, at once or when its turn comes: those of the others as links to the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
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

    Args:
        number: Its block number, which becomes the version of parts that it has passed.
        partition_id: The partition whose blocks the number counts; empty in plain tables, which count over the whole
            table.
        command: The command, as written by the server.
        is_done: Whether no part is left to change.
        waiting: The partitions that have parts left to change.
        is_of_gone: Whether it dropped a column that the table does not have now. Default: not known.
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
        return bool(_RENAME.search(_QUOTED.sub("?", self.command)))

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
    blank = _QUOTED.sub(lambda quoted: "?" * len(quoted[0]), command)
    scopes = [match.start() for match in _SCOPE.finditer(blank)]
    matched = _OF_ONE.match(command, scopes[0]) if len(scopes) == 1 else None
    if matched is None:
        return False
    if matched["id"] is not None:
        return matched["id"] != partition_id
    # Only the form of this table's ids can be compared: 2026-04-01 is 20260401 if partitions are days.
    number = matched["value"].replace("-", "")
    return partition_id.isdecimal() and len(number) == len(partition_id) and number != partition_id
