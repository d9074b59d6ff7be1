"""Tables whose periods have several partitions, such as one for each tenant, and their objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator
from tests.support.lake import Lake

#: A tenant, as a file has it, and a number.
Row = tuple[str, int]


@dataclass(frozen=True)
class Case:
    """A partition key of several columns, the template of the keys of its objects, two periods, and three tenants."""

    partition_key: str
    tenant: str = "String"
    template: str = "{YYYY-MM}"
    first: str = "2026-10"
    second: str = "2026-11"
    tenants: tuple[str, str, str] = ("eu", "us", "a'p,(\\")
    column: str = "DateTime('UTC')"

    def __str__(self) -> str:
        return f"{self.partition_key} {self.tenant}"


@dataclass
class Tenants:
    """Objects of tenants, whose rows the table must hold."""

    lake: Lake
    case: Case
    engine: str = "MergeTree"
    settings: str = ""
    columns: str = ""
    header: str = ""
    rows: dict[str, list[tuple[int, Row]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        case = self.case
        columns = ", ".join(
            filter(None, [f"at {case.column}, tenant {case.tenant}, kind String, number UInt64", self.columns])
        )
        settings = ", ".join(filter(None, ["allow_nullable_key = 1", self.settings]))
        self.lake.on_every_node(
            f"CREATE TABLE {self.name} ({columns}) ENGINE = {self.engine} PARTITION BY {case.partition_key} "
            f"ORDER BY number SETTINGS {settings}"
        )

    @property
    def name(self) -> str:
        return f"{self.lake.database}.{self.lake.table}"

    def put(self, period: str, name: str, *rows: Row) -> None:
        """Write an object of a period, whose rows are a minute apart."""
        begin = Period.parse(period).begin.replace(tzinfo=UTC)
        key, at = self.key(period, name), int(begin.timestamp())
        self.rows[key] = [(at + 60 * number, row) for number, row in enumerate(rows)]
        self.lake.put(key, (self.header + self.text(key)).encode())

    def text(self, key: str) -> str:
        return "".join(f"{at},{_quoted(tenant)},k,{number}\n" for at, (tenant, number) in self.rows[key])

    def put_stray(self, period: str, other: str) -> None:
        """Write an object of a period with a row of another."""
        at = int(Period.parse(other).begin.replace(tzinfo=UTC).timestamp())
        self.lake.put(self.key(period, "stray"), f"{at},{_quoted(self.case.tenants[0])},k,1\n".encode())

    def remove(self, period: str, name: str) -> None:
        key = self.key(period, name)
        self.lake.s3.delete_object(Bucket=self.lake.bucket, Key=key)
        self.rows.pop(key, None)

    def key(self, period: str, name: str) -> str:
        at: datetime = Period.parse(period).begin
        names = {"YYYY-MM-DD": f"{at:%Y-%m-%d}", "YYYY-MM": f"{at:%Y-%m}", "HH": f"{at:%H}"}
        return f"tenants/{self.case.template}/{name}.csv".format(**names)

    def operator(self, **options: Any) -> S3ToClickHouseOperator:
        arguments = {
            "key": f"tenants/{self.case.template}/*.csv",
            "file_format": "CSV",
            "columns": ["at", "tenant", "kind", "number"],
            "period": None,
        }
        given = {name: value for name, value in (arguments | options).items() if value is not None or name == "period"}
        return self.lake.operator(**given)

    def load(self, **options: Any) -> list[str]:
        """Load, and return the statuses."""
        found = self.operator(**options).execute({})
        return [each["status"] for each in (found if isinstance(found, list) else [found])]

    def expected(self) -> list[tuple[int, str, int]]:
        return sorted((at, tenant, number) for rows in self.rows.values() for at, (tenant, number) in rows)

    def found(self) -> list[tuple[int, str, int]]:
        """Return the rows of the table, on all nodes."""
        table = f"cluster('{self.lake.cluster.name}', {self.lake.database}, {self.lake.table})"
        tenant = "ifNull(toString(tenant), '\\\\N')"
        return sorted(self.lake.on_node(0, f"SELECT toUnixTimestamp(at), {tenant}, number FROM {table}"))

    def assert_exact(self) -> None:
        assert self.found() == self.expected()

    def partitions(self, node: int = 0) -> dict[str, tuple[str, int]]:
        """Return the partitions that hold rows on a node, as shown, with their newest part and rows."""
        sql = (
            f"SELECT partition, max(name), sum(rows) FROM system.parts WHERE active AND rows > 0 "
            f"AND database = '{self.lake.database}' AND table = '{self.lake.table}' GROUP BY partition"
        )
        return {partition: (name, rows) for partition, name, rows in self.lake.on_node(node, sql)}


def _quoted(text: str) -> str:
    return text if text == "\\N" else '"' + text.replace('"', '""') + '"'


MONTHLY = Case("(tenant, toYYYYMM(at))", "LowCardinality(String)")
BOTH = [MONTHLY.first, MONTHLY.second]
