"""Check whether a partition is still the recorded one, changed by merges alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from airflow_provider_chs3.core.ledger.partition_state import (
    DATA_DIGITS,
    Contents,
    Evidence,
    Part,
    PartitionState,
    are_elsewhere,
    wait_for,
)
from airflow_provider_chs3.core.target.table_facts import TableFacts


def is_explained(recorded: Evidence, state: PartitionState, *, table_facts: TableFacts) -> bool:
    """Check whether a partition is the recorded one, except for merges, and mutations that left its rows as they were.

    Each part must be a recorded one, by its blocks and the hash of its data, or a merge of recorded ones; and each
    recorded part must be in one of them, unless merges may remove all its rows, and the server has not lost it.
    """
    if recorded.parts is None or state.each_part is None or wait_for(state.mutations, state.partition_id):
        return False
    if not fit_rows(recorded, state, table_facts):
        return False
    if _are_same(recorded.parts, state.each_part):
        return True
    explained = set[Part]()
    for patches in {part.patches for part in state.each_part}:
        known = _of(recorded.parts, patches)
        for part in _of(state.each_part, patches):
            within = _within(known, part)
            if not within or not _is_made_of(within, part, recorded, state, table_facts):
                return False
            explained.update(within)
    gone = [part for part in _of(recorded.parts, "") if part not in explained]
    return not gone or (may_have_lost(recorded, state, table_facts) and not any(map(state.has_broken, gone)))


def keeps_recorded_parts(recorded: Evidence, state: PartitionState, *, table_facts: TableFacts) -> bool:
    """Check whether a partition holds any recorded part, as it was, merged with other recorded ones, or mutated."""
    known = _of(recorded.parts or (), "")
    within = [(part, _within(known, part)) for part in _of(state.each_part or (), "")]
    return any(of and (part.mutation or _is_made_of(of, part, recorded, state, table_facts)) for part, of in within)


def may_have_lost(recorded: Evidence, state: PartitionState, table_facts: TableFacts) -> bool:
    """Check whether merges may have removed all rows of recorded parts: those of all parts only if none lasts."""
    lasts = recorded.lasts and not table_facts.rows_expire
    return table_facts.may_lose_all and (state.rows > 0 or not lasts)


def spare_gone_columns(state: PartitionState, table_facts: TableFacts) -> PartitionState:
    """Return a partition to whose rows it means nothing that columns were dropped which the table does not have now."""

    def is_gone(name: str) -> bool:
        # A Nested column is one column for each of its fields.
        return not any(column.name == name or column.name.startswith(f"{name}.") for column in table_facts.columns)

    dropped = {mutation.dropped_column for mutation in state.mutations} - {""}
    gone = set(filter(is_gone, dropped))
    spared = (replace(mutation, is_of_gone=mutation.dropped_column in gone) for mutation in state.mutations)
    return replace(state, mutations=tuple(spared)) if gone else state


def _are_same(recorded: Sequence[Part], parts: Sequence[Part]) -> bool:
    """Check whether parts are the recorded ones, without any merge or mutation since: so most are."""
    return len(recorded) == len(parts) and all(
        before.without_content == part.without_content
        and (before.content == part.content or not (before.content and part.content))
        for before, part in zip(recorded, parts, strict=True)
    )


def is_left_by_crash(intent: Evidence, state: PartitionState, *, table_facts: TableFacts) -> bool:
    """Check whether a partition is what is left if its load, its server or its power dies while it is replaced.

    | table | what dies | what is left |
    |---|---|---|
    | any | the load | the parts before, or the staged ones |
    | not replicated | a server before 26.6, or any power | all parts before and any staged ones, or the reverse |
    | replicated | a server | the parts before, or the staged ones: Keeper knows which |
    | any | the power | the same without parts that the server put aside as broken |

    REPLACE PARTITION adds all staged parts before it removes any other. Merges of these parts count, as long as the
    server shows what they joined: blocks and rows prove nothing, as those of an INSERT of somebody may be the same.
    """
    if wait_for(state.mutations, state.partition_id):
        return False
    replacement = _Replacement.of(intent, state, table_facts)
    if replacement is None:
        return False
    is_whole = table_facts.may_lose_all or replacement.has_all_before or replacement.has_all_staged
    return is_whole and not (table_facts.is_replicated and replacement.before and replacement.staged)


def undone_mutation(state: PartitionState, *, after: int) -> str:
    """Return a mutation that changed rows which were replaced a moment later; empty if there is none.

    The parts that replaced them have higher block numbers than it, so it does not change them, and is done.
    """
    commands = (
        mutation.command
        for mutation in state.mutations
        if after < mutation.number < (state.min_block or mutation.number + 1) and mutation.concerns(state.partition_id)
    )
    return next(commands, "")


def missing_parts(recorded: Evidence, state: PartitionState) -> list[Part]:
    """Return the recorded parts that are gone, if nothing else changed; otherwise none."""
    if recorded.parts is None or state.each_part is None or wait_for(state.mutations, state.partition_id):
        return []
    known = set(recorded.parts)
    return [] if set(state.each_part) - known else sorted(known - set(state.each_part))


def is_made_of_staged(staged: Contents, state: PartitionState, *, table_facts: TableFacts) -> bool:
    """Check whether a partition that was just replaced holds the staged parts, or merges of them."""
    if state.each_part is None or staged.of_parts is None:
        return True
    of_nothing = Evidence(rows=0, parts=(), beside=staged)
    is_waiting = wait_for(state.mutations, state.partition_id)
    return not is_waiting and _Replacement.of(of_nothing, state, table_facts) is not None


def are_merged(known: Iterable[str], state: PartitionState) -> bool:
    """Check whether parts are merges: only the joined parts show where their rows are from."""
    contents = set(known)
    return any(part.level > 0 and part.content not in contents for part in state.each_part or ())


def without_old_patches(state: PartitionState, replaced: PartitionState) -> PartitionState:
    """Return a partition without the patches of the rows that were replaced: servers drop them some time later."""
    last_blocks = dict[str, int]()
    for part in replaced.each_part or ():
        last_blocks[part.patches] = max(part.max_block, last_blocks.get(part.patches, 0))
    kept = (
        part for part in state.each_part or () if not part.patches or part.max_block > last_blocks.get(part.patches, -1)
    )
    return state if state.each_part is None else replace(state, each_part=tuple(kept))


@dataclass(frozen=True)
class _Replacement:
    """The parts before a partition was replaced, and the staged ones that it is made of."""

    intent: Evidence
    state: PartitionState
    table_facts: TableFacts
    before: frozenset[Part] = frozenset()
    staged: tuple[str, ...] = ()

    @classmethod
    def of(cls, intent: Evidence, state: PartitionState, table_facts: TableFacts) -> Self | None:
        """Return what a partition is made of; None if of anything else, too, or nobody knows."""
        if intent.beside.of_parts is None or state.each_part is None:
            return None
        nothing = cls(intent, state, table_facts)
        known = [part for current in state.each_part for part in nothing._joined_in(current) or (None,)]
        if None in known:
            return None
        replacement = cls(
            intent,
            state,
            table_facts,
            frozenset(before for part in known if part for before in nothing._before(part)),
            tuple(content for part in known if part and (content := nothing._staged(part))),
        )
        return None if Counter(replacement.staged) - Counter(intent.beside.of_parts) else replacement

    @property
    def has_all_before(self) -> bool:
        """Whether no part from before is missing, but those that the server put aside as broken."""
        return self.intent.parts is not None and all(map(self.state.has_broken, {*self.intent.parts} - self.before))

    @property
    def has_all_staged(self) -> bool:
        """Whether no staged part is missing, but as many as the server put aside as broken."""
        missing = Counter(self.intent.beside.of_parts) - Counter(self.staged)
        broken = [first for of, first, _ in self.state.broken if of == self.state.partition_id]
        return missing.total() <= sum(first > self._last_before for first in broken)

    @property
    def _last_before(self) -> int:
        # Replicas number blocks from 0.
        return max((part.max_block for part in self.intent.parts or ()), default=-1)

    def _joined_in(self, part: Part) -> list[Part]:
        """Return the known parts that a part is, or was merged of; none if there are others, or they are gone."""
        if self._before(part) or self._staged(part) or not part.rows:
            return [part]
        within = [
            source
            for source in self.state.sources
            if part.min_block <= source.min_block and source.max_block <= part.max_block and _size(source) < _size(part)
        ]
        joined = list[Part]()
        for inner in sorted(within, key=lambda inner: (inner.min_block, -inner.max_block, -inner.level)):
            # Others were joined in it before.
            if not joined or inner.min_block > joined[-1].max_block:
                joined.append(inner)
        if not joined or (joined[0].min_block, joined[-1].max_block) != (part.min_block, part.max_block):
            return []
        if not self._may_be_merged(joined, part):
            return []
        known = [self._joined_in(whole) for whole in joined]
        return [piece for pieces in known for piece in pieces] if all(known) else []

    def _before(self, part: Part) -> list[Part]:
        """Return the parts from before that a part is, or was merged of."""
        within = _within(_of(self.intent.parts or (), part.patches), part)
        is_made = within and _is_made_of(within, part, self.intent, self.state, self.table_facts)
        return within if is_made and self._may_be_merged(within, part) else []

    def _staged(self, part: Part) -> str:
        """Return the content of the staged part that a part is; empty if it is none."""
        staged, is_new = self.intent.beside.of_parts or (), part.min_block > self._last_before and not part.patches
        if not is_new or not _has_version(part, {0}, self.state):
            return ""
        # A mutation of other periods leaves the data as they are, and may rewrite the files beside them.
        is_same = [
            content
            for content in staged
            if content == part.content or (part.mutation and content[:DATA_DIGITS] == part.data)
        ]
        return next(iter(is_same), "")

    def _may_be_merged(self, parts: Sequence[Part], merged: Part) -> bool:
        return _may_leave(merged.rows, sum(part.rows for part in parts), parts, self.table_facts)


def _within(known: list[Part], part: Part) -> list[Part]:
    """Return the recorded parts that were merged into a part; none if it cannot be a merge of recorded ones.

    Merges join whole parts. A part may begin lower only before the first of them: REPLACE PARTITION covers the old
    parts with one without rows, which is merged, too, after a restart.
    """
    first = bisect_left(known, part.min_block, key=lambda recorded: recorded.min_block)
    end = bisect_right(known, part.max_block, key=lambda recorded: recorded.max_block)
    inner = known[first:end]
    begins = not first or known[first - 1].max_block < part.min_block
    ends = bool(inner) and inner[-1].max_block == part.max_block
    return inner if begins and ends and (inner[0].min_block == part.min_block or not first) else []


def _size(part: Part) -> tuple[int, int]:
    return part.max_block - part.min_block, part.level


def _of(parts: Iterable[Part], patches: str) -> list[Part]:
    """Return parts in the order of their blocks, which do not overlap."""
    return sorted((part for part in parts if part.patches == patches), key=lambda part: part.min_block)


def fit_rows(recorded: Evidence, state: PartitionState, table_facts: TableFacts) -> bool:
    """Check whether merges of the recorded parts may have left this number of rows."""
    return _may_leave(state.rows, recorded.rows, recorded.parts or (), table_facts)


def _may_leave(left: int, rows: int, parts: Iterable[Part], table_facts: TableFacts) -> bool:
    """Check whether merges may have left so many rows: the engine, TTL or a lightweight DELETE may remove some."""
    if left == rows:
        return True
    is_exact = table_facts.keeps_every_row and not any(part.hides_rows for part in parts)
    return not is_exact and left < rows


def _is_made_of(
    within: list[Part], part: Part, recorded: Evidence, state: PartitionState, table_facts: TableFacts
) -> bool:
    before = within[0]
    if (part.min_block, part.max_block, part.level) == (before.min_block, before.max_block, before.level):
        if part.content and before.content:
            # No hash of a compact part of 25.8 changes if columns swap their names.
            if any(change.renames for change in state.mutations if before.mutation < change.number <= part.mutation):
                return False
            # Mutations that change nothing in it, such as those of other periods, give it a version, too.
            is_known = part.mutation in {mutation.number for mutation in state.mutations}
            is_same = part.content == before.content or (part.data == before.data and is_known)
            return is_same or _lost_no_rows(before, part, state)
    elif part.level <= max(inner.level for inner in within):
        return False
    versions = {
        recorded_part.mutation
        for recorded_part in (
            *within,
            *(recorded_part for recorded_part in recorded.parts or () if recorded_part.patches),
        )
    }
    # A part merged from patches has their version, too, and nothing else shows it once they are gone.
    return part.mutation in versions if table_facts.may_be_patched else _has_version(part, versions, state)


def _lost_no_rows(before: Part, part: Part, state: PartitionState) -> bool:
    """Check whether the mutations since then left all rows that the table shows, or were of other partitions."""
    dropped = any(
        mutation.leaves_rows and before.mutation < mutation.number <= part.mutation for mutation in state.mutations
    )
    return dropped and part.rows == before.rows and _has_version(part, {before.mutation}, state)


def _has_version(part: Part, versions: set[int], state: PartitionState) -> bool:
    return part.mutation in versions or are_elsewhere(
        state.mutations, state.partition_id, after=max(versions), version=part.mutation
    )
