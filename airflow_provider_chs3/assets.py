"""Assets for tables of ClickHouse, `clickhouse://host:port/database/table`, and the DAGs that their events start.

`create_asset`, `each_month` and `emitted_periods` are for DAGs. Airflow calls the others, which `get_provider_info`
names. Assets of buckets, `s3://bucket/key`, are the Amazon provider's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow import sdk
from airflow.providers.common.compat.sdk import Asset

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.common.compat.sdk import Context

_NATIVE_PORT = 9000
_FORM = "use clickhouse://host:port/database/table"


def create_asset(
    *, host: str, database: str, table: str, port: int = _NATIVE_PORT, extra: dict[str, Any] | None = None
) -> Asset:
    """Return the asset of a table.

    Args:
        host: The first host of the connection.
        database: The table's database.
        table: The table.
        port: The connection's native port, 9000 by default; with TLS it is 9440.
        extra: The asset's own extra.

    Raises:
        ValueError: If a part is empty.
    """
    authority = f"[{host}]" if ":" in host else host
    return Asset(f"clickhouse://{authority}:{port}/{quote(database, safe='')}/{quote(table, safe='')}", extra=extra)


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the one spelling of a table's URI: lower-case host, a port, no user.

    Args:
        uri: As the DAG has it.

    Raises:
        ValueError: If it names no host, or not a database and a table.
    """
    if not uri.hostname:
        raise ValueError(f"{uri.geturl()!r} has no host: {_FORM}.")
    _, *names = uri.path.split("/")
    if len(names) != 2 or not all(names):
        raise ValueError(f"{uri.geturl()!r} does not name a database and a table: {_FORM}.")
    host = f"[{uri.hostname}]" if ":" in uri.hostname else uri.hostname
    return uri._replace(netloc=f"{host}:{uri.port or _NATIVE_PORT}")


def convert_asset_to_openlineage(asset: Asset, lineage_context: object) -> Dataset:
    """Return the table's dataset in lineage, the same as that of `S3ToClickHouseOperator`.

    Args:
        asset: The asset.
        lineage_context: Not needed: the URI has everything.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset

    uri = urlsplit(asset.uri)
    _, database, table = map(unquote, uri.path.split("/"))
    return Dataset(namespace=f"clickhouse://{uri.netloc}", name=f"{database}.{table}")


def each_month(asset: Asset) -> Any:
    """Return the schedule of a DAG that runs for newly published periods.

    From Airflow 3.3 on the DAG has one run for each period, with the period as its partition key. In older versions one
    run covers all periods published since the last run. `emitted_periods` returns the periods of a run, in all
    versions.

    Args:
        asset: The asset in the load's `outlets`.

    Returns:
        The value for `DAG(schedule=…)`.
    """
    # 3.2 has partitions too, but not partitions that tasks find at run time.
    if hasattr(sdk, "PartitionedAtRuntime"):
        return sdk.PartitionedAssetTimetable(assets=asset, default_partition_mapper=sdk.IdentityMapper())
    return [asset]


def emitted_periods(context: Context) -> list[dict[str, Any]]:
    """Return the periods of a run of a DAG that `each_month` schedules.

    Args:
        context: The context of a task in the run.

    Returns:
        What the newest event says about each period: period, status, reason, target, rows, source_bytes, objects,
        parts, fingerprint and partition_key. Empty for a run that was started by hand.
    """
    events = [event for events in context["triggering_asset_events"].values() for event in events]
    newest = {
        values["period"]: values
        for event in sorted(events, key=lambda event: event.timestamp)
        for values in _extras_of(event)
    }
    return [newest[period] for period in sorted(newest)]


def _extras_of(event: Any) -> list[dict[str, Any]]:
    """Return the period of an event; without one of its own, all of its task's."""
    extras = event.extra.get("periods", [event.extra])
    return [extra for extra in extras if extra.get("partition_key") == getattr(event, "partition_key", None)] or extras
