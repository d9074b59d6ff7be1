"""See whether row policies filter what the user reads of `system`.

A policy may hide a column, which would stay empty, or parts, which would be replaced as if they were not there.
"""

from __future__ import annotations

from airflow_provider_chs3.core.sql.quoting import literal

#: What a load decides by, where a row that is not seen would not just make it fail.
_DECISIVE = ("columns", "detached_parts", "mutations", "parts", "processes", "settings", "tables")


def filtered_query() -> str:
    """Return an expression of the names of the tables that a policy filters for the user.

    Only administrators may list policies, but the plan of a query shows that one applies.
    """
    found = (
        f"if((SELECT countIf(explain ILIKE '%row-level%') FROM (EXPLAIN SELECT 1 FROM system.{name})) > 0, "
        f"{literal(name)}, '')"
        for name in _DECISIVE
    )
    return f"arrayFilter(name -> notEmpty(name), [{', '.join(found)}])"
