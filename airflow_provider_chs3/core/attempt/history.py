"""Read what earlier loads of a table recorded for the next one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.source.file_set import Files
from airflow_provider_chs3.core.source.formats import compression_of_key
from airflow_provider_chs3.core.sql.quoting import Sql, identifier, literal, literals, table
from airflow_provider_chs3.core.tuning.calibrated_profile import Circumstances, Profile, short_version
from airflow_provider_chs3.core.values.models import NodeSpec, TableName
from airflow_provider_chs3.core.workflow.operations import QueryNodes, Row, Steps

#: The event of a profile's record, which is about no period, and has none of a period's numbers.
CALIBRATED = "calibrated"
#: Loads that must have read their files alike: of files whose types change now and then, a load would often start over.
_LOADS_ALIKE = 3
#: What is recorded of files that are not alike.
_NOT_ALIKE = "[]"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableHistory:
    """The history of a table, from the first node's ledger.

    Args:
        memory_steps: How often the newest load had to lower its need of memory.
        memory_bytes: Memory that this load could use.
        profile: The newest calibrated profile of a table of this name; None if there is none, or it is not to be used.
        is_of_this_table: Whether the profile is of the current table.
        version: ClickHouse's version on that node.
        expected: How the files of this load are read if they are like those of the newest ones, with an estimate of
            their rows and bytes; None if there were none, or they were not alike.
    """

    memory_steps: int = 0
    memory_bytes: int = 0
    profile: Profile | None = None
    is_of_this_table: bool = True
    version: str = ""
    expected: Reading | None = None

    def usable_profile(self, now: Circumstances) -> tuple[Profile | None, str]:
        """Return the profile if it applies.

        Args:
            now: The circumstances of the load.

        Returns:
            The profile, or None; and a text for the log, empty if there is nothing to say.
        """
        if self.profile is None:
            return None, ""
        why = self.profile.measured_on.difference(now) if self.is_of_this_table else "the table was recreated"
        if why:
            why_rules = f"This load uses the rules: the profile calibrated {self.profile.at} no longer applies ({why})"
            return None, f"{why_rules}: calibrate the table again."
        if not self.profile.knobs.turned():
            return self.profile, f"Calibrated {self.profile.at}: no setting was faster than the rules'."
        return self.profile, f"Calibrated {self.profile.at}: settings marked 'calibrated' replace the rules'."


def read_history(load: LoadContext) -> Steps[TableHistory]:
    """Read the table's history from the first node's ledger, with one statement.

    Args:
        load: The load.
    """
    context = load.context
    if not context.nodes[context.coordinator].has_ledger:
        return TableHistory()
    ask = context.on_coordinator(name="Look up earlier loads of the table", sql=_history_query(load))
    ((loads, profiles, version, readings),) = yield from ask
    memory_steps, memory_bytes = loads[0] if loads else (0, 0)
    uuid, found = profiles[0] if profiles else ("", "")
    return TableHistory(
        memory_steps=memory_steps,
        memory_bytes=memory_bytes,
        profile=Profile.of_json(json.loads(found)["profile"]) if profiles else None,
        is_of_this_table=uuid == load.key_on(context.coordinator).target_uuid,
        version=short_version(version),
        expected=_expected(load, readings),
    )


def _expected(load: LoadContext, rows: Sequence[Row]) -> Reading | None:
    if len({text for text, *_ in rows}) != 1 or rows[0][0] == _NOT_ALIKE:
        return None
    text, row_count, size_bytes, uncompressed_bytes = rows[0]
    reading, times = Reading.of_json(json.loads(text)), load.files.manifest.size_bytes / max(size_bytes, 1)
    if not {each.column for each in reading.loaded} <= {*load.context.table_facts.columns}:
        return None
    return replace(reading, rows=round(row_count * times), uncompressed_bytes=round(uncompressed_bytes * times))


def values_of_reading(load: LoadContext, reading: Reading) -> dict[str, str | int]:
    """Return the values of a load's record by which the next one expects what is in its files.

    Args:
        load: The load.
        reading: How its files were read.
    """
    is_typed = load.files.format.name == "Parquet" and bool(reading.groups)
    text = reading.of_others.as_text if reading.of_others else _NOT_ALIKE
    return {"reading": text if is_typed else "", "uncompressed_bytes": reading.uncompressed_bytes or 0}


def _history_query(load: LoadContext) -> Sql:
    context, key = load.context, load.key_on(load.context.coordinator)
    newest_load = (
        f"SELECT memory_steps, memory_bytes FROM {table(context.loads)} "
        f"WHERE {key.table_condition} AND event = 'load' ORDER BY recorded_at DESC LIMIT 1"
    )
    newest_profile = (
        f"SELECT target_uuid, evidence FROM {table(context.ledger)} "
        f"WHERE {key.name_condition} AND period = '' AND event = {literal(CALIBRATED)} ORDER BY recorded_at DESC "
        "LIMIT 1"
    )
    newest_readings = (
        f"SELECT reading, loaded_rows, loaded_bytes, uncompressed_bytes FROM {table(context.loads)} "
        f"WHERE {key.table_condition} AND event = 'load' AND definition = {literal(load.request.definition)} "
        f"AND reading != '' ORDER BY recorded_at DESC LIMIT {_LOADS_ALIKE}"
    )
    has_loads = context.nodes[context.coordinator].has_loads
    loads, readings = (
        f"({_as_array(each)})" if has_loads else "emptyArrayString()" for each in (newest_load, newest_readings)
    )
    profiles = f"({_as_array(newest_profile)})" if load.request.use_calibration else "emptyArrayString()"
    return Sql(f"SELECT {loads}, {profiles}, version(), {readings}")


def _as_array(select: str) -> str:
    # Not a tuple out of a sub-query: that is a Nullable(Tuple(…)), which clickhouse-driver cannot read.
    columns, rest = select.removeprefix("SELECT ").split(" FROM ", 1)
    return f"SELECT groupArray(found) FROM (SELECT ({columns}) AS found FROM {rest})"


def circumstances_of(files: Files, *, nodes: int, spec: NodeSpec, version: str) -> Circumstances:
    """Return the circumstances of a load, by which a calibrated profile applies or not.

    Args:
        files: The period's files.
        nodes: Number of nodes that load.
        spec: The smallest of them.
        version: ClickHouse's version.
    """
    compressions = {compression_of_key(each.key) for each in files.manifest.objects}
    given = files.compression if files.compression != "auto" else "+".join(sorted(compressions))
    return Circumstances(
        files=files.format.name if given in ("", "none") else f"{files.format.name}, {given}",
        nodes=nodes,
        cores=spec.cores,
        memory_bytes=spec.memory_bytes,
        version=version,
    )


def record_profile(load: LoadContext, ledger: TableName, found: Mapping[str, Any]) -> Steps[None]:
    """Record a profile on every node, so that loads find it whichever node is the first. It is of no period.

    Args:
        load: The load of the sample.
        ledger: The ledger, which exists on every node.
        found: The profile, and its evidence.
    """
    text = json.dumps(found, sort_keys=True, ensure_ascii=False)
    statements = {}
    for node in load.context.recorders:
        key = load.key_on(node)
        values = {
            "event": CALIBRATED,
            "target_database": key.target.database,
            "target_table": key.target.table,
            "target_uuid": key.target_uuid,
            "attempt": load.request.nonce,
            "evidence": text,
        }
        names = ", ".join(map(identifier, values))
        statements[node] = Sql(f"INSERT INTO {table(ledger)} ({names}) SELECT {literals(values.values())}")
    yield from QueryNodes(name="Record the profile on every node", sql=statements)
