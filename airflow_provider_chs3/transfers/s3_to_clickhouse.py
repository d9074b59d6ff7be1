"""Load one month of S3 objects into a ClickHouse table, exactly once."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_chs3.operators._support.month_load import MonthLoad
from airflow_provider_chs3.operators.monthly import MonthlyOperator


class S3ToClickHouseOperator(MonthLoad, MonthlyOperator):
    """Make a month's partition hold exactly the rows of that month's objects.

    The operator compares the objects (keys, sizes, ETags) with those last published. If nothing changed, it does
    nothing. Otherwise all nodes load them into a staging table together; the rows are counted and then published with
    REPLACE PARTITION. It is idempotent: running it again after any error gives the same rows.

    It takes the arguments of `MonthlyOperator` (table, objects, credentials) and these. `select`, `csv`, `settings` and
    `node_specs` may be JSON files, and texts in them `.sql` files, by their paths from the folder of the DAG file.

    Args:
        month: `YYYY-MM`. Default: the run's partition key, else the month of its data interval; in a run that asks to
            reload a month (`core.request.reload`), that month.
        file_format: A format such as `Parquet` or `CSVWithNames`. Default: detected from the keys' endings.
        compression: A method such as `gzip`. Default: detected from the keys' endings.
        columns: Columns to load. Default: all columns that the table accepts.
        select: Instead of `columns`: column of the table → row-wise expression over the files' columns, which are
            strings in text formats.
        null_as_default: Whether NULL in a column that cannot hold it becomes its default. Default: False, an error.
        lossy_columns: Columns whose values may be truncated: digits beyond the scale, parts of a second, the time of
            day; doubles are rounded. Default: none; such a value is an error.
        naive_timestamps: The zone of timestamps without one in files that carry types: `utc`, or `column_zone`, the
            zone of their column. Default: an error where the two differ.
        csv: The CSV dialect: `delimiter`, `quote`, `null`, `skip_lines`, `trim`, `blank_lines` (see
            `core.source.csv_dialect.Dialect`). Default: commas, double quotes, and a backslash with N for NULL.
        write_mode: `replace` (default), or `append`, which inserts directly into the table: a retry duplicates rows.
        allow_duplicates: Whether `append` may be combined with retries. Default: False.
        distribution: `where_read` (default): each node keeps the rows of the files that it reads, which is fast.
            `sharding_key`: one node sends each row to the shard given by the Distributed table's sharding key.
        on_no_objects: `fail` (default; a retry helps if they arrive late), `skip` the month, or publish it `empty`.
        ready_key: An object that must exist, such as `_SUCCESS`; a name without `/` is looked up beside the month's
            objects. It may be a template.
        min_object_age_seconds: Minimum age of the objects; if one is younger, the task fails for a retry. Default: 0.
        max_shrink_fraction: Stop if the month lost more than this fraction of its published bytes. Default: 0.5.
        replace_unknown: Whether to replace rows that no known load has written, instead of stopping. Default: False.
        on_target_changed: `fail` (default), or `reload` a month that was changed by others since it was published.
        on_other_months: `fail` (default), or `leave_out` rows that belong to another month.
        incremental: Whether to load new objects alone if nothing else of the month changed. Default: True.
        create_table: `never`, or `if_missing`: create the table on every node, from the files' columns, as `chs3 ddl`
            prints it. Default: `never`.
        on_new_columns: If files have columns that the table lacks: `warn` in the log, `fail`, or `add` them to it on
            every node, and load them. Default: `warn`.
        max_increments: Load a month whole after this many such loads, if merges remove rows of its table. Default: 30.
        object_column: A column that `select` fills with `_path`: if objects are overwritten or deleted, only their rows
            are replaced. Default: None, the month is loaded whole.
        count_again: Whether to read text twice to count its rows. Default: only if the insert proves nothing.
        unproved_codecs: `refuse` (default) compressed objects that nothing proves to be whole, or `load` them.
        settings: ClickHouse settings for the insert; they override computed ones.
        node_specs: Host, `host:port` or `default` → `{"cores": 8, "memory": "32GiB"}`. They override the connection's,
            which override the nodes' macros `cores` and `memory`. Anything not declared is measured.
        memory_share: Fraction of each node's memory that all loads together may use, above 0 and at most 1. Default:
            0.5, for nodes that also do other work; 1 suits a load that runs alone.
        parallel_months: Number of months that share cores and memory. Default: as many as keep all cores busy.
        use_calibration: Whether to use what `CalibrateLoadOperator` found for the table. Default: True.
        progress_interval_seconds: Seconds between two lines of progress in the log. Default: Airflow's
            `[chs3] progress_interval_seconds`, 10.
        deferrable: Whether to free the worker during the insert: it is started over HTTP and continues in ClickHouse
            while the triggerer waits; a retry resumes it. `append` is never deferred. Default: Airflow's
            `[operators] default_deferrable`.
        cancel_on_kill: Whether to end the load on all nodes if a person fails or clears the task, or the worker has to
            stop. Default: True.
        wait_for_merges: Whether to wait until the month's merges have settled, too. Default: False; `monthly_load` has
            a sensor for it, shown as a separate task.
        merge_health: Arguments of `ClickHouseMergeHealthSensor`, such as `on_stuck` or `settled_after_seconds`.

    Returns:
        Status, rows, rows by node, bytes, objects, parts, seconds, settings and ids of the load, as JSON-safe values;
        and, if it waited for them, `merges` with the verdict on each node.
    """

    template_fields: Sequence[str] = tuple(
        dict.fromkeys((*MonthlyOperator.template_fields, *MonthLoad.template_fields))
    )
