"""Load periods of S3 objects into a ClickHouse table, exactly once."""

from __future__ import annotations

from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask
from airflow_provider_chs3.operators.period import PeriodOperator


class S3ToClickHouseOperator(PeriodLoadTask, PeriodOperator, takes=()):
    """Make the partition of a period, or of each of several, hold exactly the rows of that period's objects.

    The operator compares the objects (keys, sizes, ETags) with those last published. If nothing changed, it does
    nothing. Otherwise all nodes load them into a staging table together; the rows are counted and then published with
    REPLACE PARTITION. It is idempotent: running it again after any error makes the same rows.

    With `periods`, it lists the objects of all periods at once, and inserts those that changed with one statement. For
    small periods, that takes a fraction of the time that separate tasks would take. A period that fails does not stop
    the others: the task fails at its end and names the periods, and a retry loads only these. Periods are loaded one
    after the other where they cannot share a statement: with `null_as_default` in `casts`, `on_other_periods`
    in `policies`, or if the column of the partition key is not loaded.

    Arguments that may be dicts may be JSON files, and texts in them `.sql` files, by their paths from the folder of the
    DAG file.

    Returns:
        Status, rows, rows by node, bytes, objects, parts, seconds, settings and ids of the load, as JSON-safe values;
        and, if it waited for them, `merges` with the verdict on each node. With `periods`, a list of these, in the
        order of the periods.
    """
