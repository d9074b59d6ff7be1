"""Which tables may be loaded by increments: for them, published rows and new ones are together what a whole load makes.

docs/protocol.md lists the engines with what was run on each.
"""

from __future__ import annotations

import re

from airflow_provider_chs3.core.cluster.table_facts import TableFacts

_ENGINES = frozenset(f"{kind}MergeTree" for kind in ("", "Replacing", "Summing", "Aggregating", "Coalescing"))
#: What depends on another table in a default, as servers write it: old and new rows would show two states of it.
_LOOKUPS = re.compile(r"\b(dict[A-Z]\w*|joinGet\w*)\s*\(|\(\s*SELECT\b", re.IGNORECASE)
_GROUP_BY_TTL = re.compile(r"\bTTL\b.*\bGROUP BY\b", re.DOTALL)


def why_whole(table_facts: TableFacts) -> str:
    """Return why a table's periods are always loaded whole; empty if increments give the same rows.

    Args:
        table_facts: The table.
    """
    engine = table_facts.engine.removeprefix("Replicated").removeprefix("Shared")
    if engine not in _ENGINES:
        return f"{table_facts.engine} merges rows, and merged rows do not combine with new ones as all rows would"
    if "replacing_merge_with_cleanup" in table_facts.engine_full:
        return "the table's merges may remove deleted rows (CLEANUP), and a late older version of one would come back"
    if _GROUP_BY_TTL.search(table_facts.engine_full):
        return "the table's TTL aggregates rows"
    if table_facts.may_be_patched:
        return "the table takes lightweight updates, which may apply to other rows once parts are attached"
    defaults = (each.default_expression for each in table_facts.columns)
    if found := next(filter(None, map(_LOOKUPS.search, defaults)), None):
        what = f"calls {found[1]}" if found[1] else "holds a sub-query"
        return f"the default of a column {what}, whose value may have changed since"
    return ""


def attaches_first(table_facts: TableFacts) -> bool:
    """Check whether published rows must be in staging before new ones are inserted.

    Engines that merge rows may let the newest one win, by the number of its block: attached later, the old rows would.
    For all other tables the published rows come last: the time in which somebody may change them is short then, and
    merges that end meanwhile are kept.
    """
    return not table_facts.is_plain
