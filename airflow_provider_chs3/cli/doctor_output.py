"""`doctor`: run the checks for the command line, and print their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from airflow_provider_chs3.cli.loads import ChosenLoad
from airflow_provider_chs3.cli.tables import rendered, size
from airflow_provider_chs3.client.connection import check_settings
from airflow_provider_chs3.client.runner import Runner
from airflow_provider_chs3.client.session import Session
from airflow_provider_chs3.core.doctor.load_trial import DoctorRequest
from airflow_provider_chs3.core.doctor.report import Check, CheckOutcome, Diagnosis, NodeReport
from airflow_provider_chs3.core.doctor.run import examine
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.quantities import quantity
from airflow_provider_chs3.core.tuning.insert_settings import settings_table, tunable
from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.sources.s3 import S3Objects
from airflow_provider_chs3.sources.s3.listing import S3Listing
from airflow_provider_chs3.table import Table

#: Timeout for a node that accepts a connection and does not answer.
_PATIENCE_SECONDS = 30.0
#: Behind one door, each search for a server may meet one that is frozen, several times.
_CONNECT_SECONDS = 3.0

_SIGNS = {CheckOutcome.OK: "ok", CheckOutcome.FINDING: "FINDING", CheckOutcome.SKIPPED: "skipped"}


def diagnosis(chosen: ChosenLoad, *, period: str | None, purposes: tuple[str, ...]) -> Diagnosis:
    """Check everything that loads depend on."""
    table, load = chosen.table, chosen.load
    options, storage = table.session.options, load.store if load else None
    patience_seconds = min(_PATIENCE_SECONDS, options.send_receive_timeout_seconds)
    connect_seconds = min(_CONNECT_SECONDS, options.connect_timeout_seconds)
    hasty = Session.of(
        replace(options, send_receive_timeout_seconds=patience_seconds, connect_timeout_seconds=connect_seconds)
    )
    if storage is None or isinstance(storage, S3Objects):
        listing: Any = S3Listing(storage.aws_conn_id if storage else None, is_patient=False)
    else:
        listing = storage.listing()
    source, error = _source(table, load, listing)
    kind = storage.kind() if storage else S3Objects.kind()
    of_load = check_settings(load.given_settings if load else {}, where="settings")
    request = DoctorRequest(
        target=table.name,
        cluster=table.cluster,
        default_cluster=options.cluster,
        staging_database=table.staging_database,
        declared=options.node_specs,
        addresses=tuple(options.node_addresses),
        settings={**tunable(options.settings, kind), **of_load},
        definition=load.definition if load and chosen.is_declared else None,
        purposes=purposes,
        now=datetime.now(UTC),
        store=kind,
        source=source,
        source_error=error,
        period=Period.parse(period) if period else None,
        creates_table=bool(load and load.create_table != "never"),
        follows_views=bool(load and load.views == "follow"),
    )
    return Runner(session=hasty, listing=listing, log=table.log).run(examine(request))


def _source(table: Table, load: Load | None, listing: Any) -> tuple[Source | None, str]:
    """Return the source of the objects, or why it is not known."""
    store = load.store if load else None
    collection, is_s3 = getattr(store, "named_collection", None), isinstance(store, S3Objects)
    if load is None or store is None or (is_s3 and not (store.place or collection)):
        return None, ""
    try:
        if not collection:
            listing.check_connection()
        return table.source(load, listing), ""
    except Chs3Error as error:
        return None, str(error)
    except Exception as error:
        # Airflow's connection, the storages' libraries and their chains of credentials all raise different errors.
        reason = f"{type(error).__name__}: {error}."
        if not is_s3:
            return None, f"No access to the objects: {reason} Fix their connection, or pass --storage-conn-id."
        where = f"AWS connection {listing.aws_conn_id!r}"
        return None, f"{where} allows no access to S3: {reason} Fix it, or pass --aws-conn-id."


def described(result: Diagnosis) -> str:
    """Describe the diagnosis as text: checks, nodes, settings with their reasons, and the number of findings."""
    blocks = ["\n".join(_lines(result))]
    if result.nodes:
        blocks.append(_nodes(result.nodes))
    if result.settings:
        blocks.append(f"Settings, apart from those that make every load exact:\n{settings_table(result.settings)}")
    count = sum(len(check.findings) for check in result.checks)
    blocks.append(f"{quantity(count, 'finding')}." if count else "No findings.")
    return "\n\n".join(blocks)


def _lines(result: Diagnosis) -> Iterator[str]:
    width = max(len(check.name) for check in result.checks)
    for check in result.checks:
        for sign, text in _describe_check(check):
            yield f"{sign:<{_SIGN_WIDTH}}  {check.name:<{width}}  {' '.join(text.split())}"


_SIGN_WIDTH = max(map(len, _SIGNS.values()))


def _describe_check(check: Check) -> Iterator[tuple[str, str]]:
    if check.summary:
        yield _SIGNS[CheckOutcome.OK] if not check.findings else "", check.summary
    for finding in check.findings:
        yield _SIGNS[CheckOutcome.FINDING], finding
    if check.skipped:
        yield _SIGNS[CheckOutcome.SKIPPED], check.skipped
    for remark in check.remarks:
        yield "note", remark


def _nodes(nodes: tuple[NodeReport, ...]) -> str:
    header = ["node", "version", "answers in", "clock", "cores", "memory", "specs", "disks free", "list", "read"]
    rows = [
        [
            node.node,
            node.version or "does not answer",
            _milliseconds(node.answer_seconds),
            None if node.clock_ahead_seconds is None else f"{node.clock_ahead_seconds:+,.3f} s",
            node.cores,
            size(node.memory_bytes) if node.memory_bytes else None,
            node.source,
            size(node.disk_free_bytes) if node.disk_free_bytes is not None else None,
            _milliseconds(node.list_seconds),
            _milliseconds(node.read_seconds),
        ]
        for node in nodes
    ]
    return rendered(header, rows)


def _milliseconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds * 1000:,.0f} ms"
