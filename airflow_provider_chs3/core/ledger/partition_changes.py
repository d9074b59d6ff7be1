"""Check whether a partition is still the recorded one, changed by merges alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.cluster.table_facts import TableFacts
from airflow_provider_chs3.core.ledger.mutations import are_elsewhere, wait_for
from airflow_provider_chs3.core.ledger.partition_state import PartitionState
from airflow_provider_chs3.core.ledger.parts import DATA_DIGITS, Contents, Evidence, Part


def is_explained(recorded: Evidence, state: PartitionState, *, table_facts: TableFacts) -> bool:
    """Check whether a partition is the recorded one, except for merges, and mutations that left its rows as they were.

    Each part must be a recorded one, by its blocks and the hash of its data, or a merge of recorded ones; and each
    recorded part must be in one of them, unless merges may remove all its rows, and the server has not lost it.

    Args:
        recorded: The recorded evidence.
        state: The current partition, of `spare_gone_columns`.
        table_facts: The table.
    """
    if recorded.parts is None or state.each_part is None or wait_for(state.mutations, state.partition_id):
        return False
    if not fit_rows(recorded, state, table_facts):
        return False
    if _are_same(recorded.parts, state.each_part):
        return True
    explained = set[Part]()
    for patches in {part.patches for part in state.each_part}:
        known = _Known(sorted(_of(recorded.parts, patches), key=lambda part: part.min_block))
        for part in _of(state.each_part, patches):
            within = known.within(part)
            if not within or not _is_made_of(within, part, recorded, state, table_facts):
                return False
            explained.update(within)
    gone = [part for part in _of(recorded.parts, "") if part not in explained]
    return not gone or (may_have_lost(recorded, state, table_facts) and not any(map(state.has_broken, gone)))


def may_have_lost(recorded: Evidence, state: PartitionState, table_facts: TableFacts) -> bool:
    """Check whether merges may have removed all rows of recorded parts: those of all parts only if none lasts.

    Args:
        recorded: The recorded evidence.
        state: The current partition.
        table_facts: The table.
    """
    lasts = recorded.lasts and not table_facts.rows_expire
    return table_facts.may_lose_all and (state.rows > 0 or not lasts)


def spare_gone_columns(state: PartitionState, table_facts: TableFacts) -> PartitionState:
    """Return a partition to whose rows it means nothing that columns were dropped which the table does not have now.

    Args:
        state: The current partition.
        table_facts: The table.
    """

    def is_gone(name: str) -> bool:
        # A Nested column is one column for each of its fields.
        return not any(each.name == name or each.name.startswith(f"{name}.") for each in table_facts.columns)

    dropped = {each.dropped_column for each in state.mutations} - {""}
    gone = set(filter(is_gone, dropped))
    spared = (replace(each, is_of_gone=each.dropped_column in gone) for each in state.mutations)
    return replace(state, mutations=tuple(spared)) if gone else state


def _are_same(recorded: Sequence[Part], parts: Sequence[Part]) -> bool:
    """Check whether parts are the recorded ones, without any merge or mutation since: so most are."""
    return len(recorded) == len(parts) and all(
        one.without_content == part.without_content
        and (one.content == part.content or not (one.content and part.content))
        for one, part in zip(recorded, parts, strict=True)
    )


def is_left_by_crash(recorded: Evidence, state: PartitionState) -> bool:
    """Check whether a partition is what a crash may leave while it was replaced: any of the parts before and after.

    Servers before 26.6 that are killed or restarted show replaced parts again, and one that lost power shows what
    reached its disk. Merges of these parts count, too.

    Args:
        recorded: The recorded evidence, before or after.
        state: The current partition.
    """
    beside = recorded.beside
    parts = (recorded.parts, beside.of_parts, state.each_part)
    if None in parts or wait_for(state.mutations, state.partition_id):
        return False
    own, others = {part.content for part in recorded.parts or ()}, set(beside.of_parts or ())
    unknown = [part for part in state.each_part or () if part.content not in own | others]
    versions = {0, *(part.mutation for part in recorded.parts or ())}
    return state.rows <= recorded.rows + beside.rows and all(
        part.level > 0 and not part.patches and _has_version(part, versions, state) for part in unknown
    )


def shows_replaced(recorded: Evidence, state: PartitionState) -> bool:
    """Check whether a published partition shows replaced parts: with their old numbers, or merged with the new ones.

    Args:
        recorded: The evidence recorded after it was replaced.
        state: The current partition.
    """
    first_block = min((part.min_block for part in recorded.parts or ()), default=0)
    others = set(recorded.beside.of_parts or ())
    is_there = any(
        part.content in others and (not first_block or part.max_block < first_block) for part in state.each_part or ()
    )
    return is_there or (recorded.beside.rows > 0 and state.rows == recorded.rows + recorded.beside.rows)


def undone_mutation(state: PartitionState, *, after: int) -> str:
    """Return a mutation that changed rows which were replaced a moment later; empty if there is none.

    The parts that replaced them have higher block numbers than it, so it does not change them, and is done.

    Args:
        state: The partition, replaced.
        after: `last_mutation` of the partition when it was looked at last before that.
    """
    commands = (
        each.command
        for each in state.mutations
        if after < each.number < (state.min_block or each.number + 1) and each.concerns(state.partition_id)
    )
    return next(commands, "")


def missing_parts(recorded: Evidence, state: PartitionState) -> list[Part]:
    """Return the recorded parts that are gone, if nothing else changed; otherwise none.

    Args:
        recorded: The recorded evidence.
        state: The current partition.
    """
    if recorded.parts is None or state.each_part is None or wait_for(state.mutations, state.partition_id):
        return []
    own = set(recorded.parts)
    return [] if set(state.each_part) - own else sorted(own - set(state.each_part))


def _is_untouched(state: PartitionState) -> bool:
    """Check that no mutation of this partition has passed its parts, and none waits for them.

    Args:
        state: The current partition.
    """
    return (
        state.each_part is not None
        and not wait_for(state.mutations, state.partition_id)
        and all(_has_version(part, {0}, state) and not part.patches for part in state.each_part)
    )


def is_made_of_staged(staged: Contents, state: PartitionState) -> bool:
    """Check whether a partition that was just replaced holds the staged parts, or merges of them.

    Args:
        staged: The contents of staging.
        state: The current partition.
    """
    if state.each_part is None or staged.of_parts is None:
        return True
    known, data = set(staged.of_parts), {content[:DATA_DIGITS] for content in staged.of_parts}
    return _is_untouched(state) and all(
        # A mutation of other periods leaves the data as they are, and may rewrite the files beside them.
        part.level > 0 or part.content in known or (part.mutation and part.data in data)
        for part in state.each_part
    )


def without_old_patches(state: PartitionState, replaced: PartitionState) -> PartitionState:
    """Return a partition without the patches of the rows that were replaced: servers drop them some time later.

    Args:
        state: The current partition.
        replaced: The partition before it was replaced.
    """
    last_blocks = dict[str, int]()
    for part in replaced.each_part or ():
        last_blocks[part.patches] = max(part.max_block, last_blocks.get(part.patches, 0))
    kept = (
        part for part in state.each_part or () if not part.patches or part.max_block > last_blocks.get(part.patches, -1)
    )
    return state if state.each_part is None else replace(state, each_part=tuple(kept))


@dataclass(frozen=True)
class _Known:
    """The recorded parts in the order of their blocks, which do not overlap."""

    parts: list[Part]

    def within(self, part: Part) -> list[Part]:
        """Return the recorded parts that were merged into a part; none if it cannot be a merge of recorded ones.

        Merges join whole parts. A part may begin lower only before the first of them: REPLACE PARTITION covers the old
        parts with one without rows, which is merged, too, after a restart.
        """
        first = bisect_left(self.parts, part.min_block, key=lambda each: each.min_block)
        end = bisect_right(self.parts, part.max_block, key=lambda each: each.max_block)
        found = self.parts[first:end]
        begins = not first or self.parts[first - 1].max_block < part.min_block
        ends = bool(found) and found[-1].max_block == part.max_block
        return found if begins and ends and (found[0].min_block == part.min_block or not first) else []


def _of(parts: Iterable[Part], patches: str) -> list[Part]:
    return [part for part in parts if part.patches == patches]


def fit_rows(recorded: Evidence, state: PartitionState, table_facts: TableFacts) -> bool:
    """Check whether merges of the recorded parts may have left this number of rows.

    Merges remove rows if the engine does, if rows expire, and if a lightweight DELETE has hidden them.

    Args:
        recorded: The recorded evidence.
        state: The current partition.
        table_facts: The table.
    """
    if state.rows == recorded.rows:
        return True
    is_exact = table_facts.keeps_every_row and not any(part.hides_rows for part in recorded.parts or ())
    return not is_exact and state.rows < recorded.rows


def _is_made_of(
    within: list[Part], part: Part, recorded: Evidence, state: PartitionState, table_facts: TableFacts
) -> bool:
    one = within[0]
    if (part.min_block, part.max_block, part.level) == (one.min_block, one.max_block, one.level):
        if part.content and one.content:
            # No hash of a compact part of 25.8 changes if columns swap their names.
            if _are_renamed(one, part, state):
                return False
            # Mutations that change nothing in it, such as those of other periods, give it a version, too.
            is_known = part.mutation in {each.number for each in state.mutations}
            is_same = part.content == one.content or (part.data == one.data and is_known)
            return is_same or _lost_columns(one, part, state)
    elif part.level <= max(each.level for each in within):
        return False
    versions = {each.mutation for each in (*within, *(each for each in recorded.parts or () if each.patches))}
    # What a merge made of patches has their version, too, and nothing else shows it once they are gone.
    return part.mutation in versions if table_facts.may_be_patched else _has_version(part, versions, state)


def _lost_columns(one: Part, part: Part, state: PartitionState) -> bool:
    """Check whether the mutations since then dropped columns that are gone, or were of other partitions."""
    dropped = any(each.is_of_gone and one.mutation < each.number <= part.mutation for each in state.mutations)
    return dropped and part.rows == one.rows and _has_version(part, {one.mutation}, state)


def _are_renamed(one: Part, part: Part, state: PartitionState) -> bool:
    """Check whether a mutation between two versions of a part renamed a column, as far as the server remembers."""
    return any(each.renames for each in state.mutations if one.mutation < each.number <= part.mutation)


def _has_version(part: Part, versions: set[int], state: PartitionState) -> bool:
    return part.mutation in versions or are_elsewhere(
        state.mutations, state.partition_id, after=max(versions), version=part.mutation
    )
