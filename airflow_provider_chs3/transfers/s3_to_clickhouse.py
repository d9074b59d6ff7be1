"""Load one month of S3 objects into a ClickHouse table, exactly once."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.operators._support.declared import takes
from airflow_provider_chs3.operators._support.month_load import MonthLoad
from airflow_provider_chs3.operators.monthly import MonthlyOperator


@takes()
class S3ToClickHouseOperator(MonthLoad, MonthlyOperator):
    """Make a month's partition hold exactly the rows of that month's objects.

    The operator compares the objects (keys, sizes, ETags) with those last published. If nothing changed, it does
    nothing. Otherwise all nodes load them into a staging table together; the rows are counted and then published with
    REPLACE PARTITION. It is idempotent: running it again after any error gives the same rows.

    Arguments that may be dicts may be JSON files, and texts in them `.sql` files, by their paths from the folder of the
    DAG file.

    Returns:
        Status, rows, rows by node, bytes, objects, parts, seconds, settings and ids of the load, as JSON-safe values;
        and, if it waited for them, `merges` with the verdict on each node.
    """

    template_fields: Sequence[str] = tuple(
        dict.fromkeys((*MonthlyOperator.template_fields, *MonthLoad.template_fields))
    )
