"""One load under way: what was found out before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_chs3.core.columns import LoadedColumn, SourceSchema
from airflow_provider_chs3.core.ledger import LedgerKey, MonthOnNode, look_up, month_on_node
from airflow_provider_chs3.core.models import Manifest, Node, Setting, SettingValues, TableName
from airflow_provider_chs3.core.request import LoadRequest
from airflow_provider_chs3.core.source_schema import Files, read_columns
from airflow_provider_chs3.core.sources import S3Source
from airflow_provider_chs3.core.staging import Attempt
from airflow_provider_chs3.core.steps import AskNodes, Say, Steps
from airflow_provider_chs3.core.target import Surroundings
from airflow_provider_chs3.core.tuning import load_settings, smallest


@dataclass(frozen=True, kw_only=True)
class Load:
    """A load under way.

    Args:
        request: What was asked for.
        around: Where it takes place.
        files: What it reads.
        key: What the ledger knows the month by.
    """

    request: LoadRequest
    around: Surroundings
    files: Files
    key: LedgerKey

    @classmethod
    def of(
        cls, request: LoadRequest, around: Surroundings, source: S3Source, manifest: Manifest, partition_id: str
    ) -> Load:
        """A load of what was listed, into what was found."""
        files = Files(
            source=source,
            manifest=manifest,
            format=request.format_of(manifest),
            compression=request.compression,
            cluster=around.cluster,
        )
        key = LedgerKey(around.target, around.shape.uuid, request.month, partition_id)
        return cls(request=request, around=around, files=files, key=key)

    @property
    def attempt(self) -> Attempt:
        """This attempt."""
        return Attempt(self.around.target, self.request.month, self.request.nonce)

    @property
    def staging(self) -> TableName:
        """This attempt's staging table."""
        return self.attempt.staging(self.around)

    def with_ledger(self) -> Load:
        """The same load, once the ledger is on every node."""
        nodes = {node: replace(facts, has_ledger=True) for node, facts in self.around.nodes.items()}
        return replace(self, around=replace(self.around, nodes=nodes))

    def look_up(self) -> Steps[dict[Node, MonthOnNode]]:
        """Ask every node for its newest record of the month, and for the month's parts."""
        ledger = self.around.ledger
        statements = {
            node: look_up(ledger, self.key, has_ledger=facts.has_ledger) for node, facts in self.around.nodes.items()
        }
        answers = yield AskNodes(name=f"Look up {self.request.month} in the ledger", sql=statements)
        return {node: month_on_node(rows[0]) for node, rows in answers.items()}


@dataclass(frozen=True, kw_only=True)
class InsertPlan:
    """What is inserted, and how.

    Args:
        schema: The files' columns.
        loaded: The target's columns, each with where it comes from.
        settings: All settings, with their reasons.
    """

    schema: SourceSchema
    loaded: tuple[LoadedColumn, ...]
    settings: tuple[Setting, ...]

    @property
    def setting_values(self) -> SettingValues:
        """Name to value."""
        return {each.name: each.value for each in self.settings}


def plan_insert(load: Load) -> Steps[InsertPlan]:
    """Find columns, types and settings.

    Raises:
        SourceError: If files lack a column or contradict each other.
        ConfigurationError: If columns, expressions or settings do not fit.
    """
    request, around = load.request, load.around
    specs = {
        node: request.node_specs.get(node.host, request.node_specs.get("default", facts.measured))
        for node, facts in around.nodes.items()
    }
    settings = load_settings(
        spec=smallest(specs.values()),
        known=around.known_settings,
        own=request.settings,
        null_as_default=request.selection.null_as_default,
    )
    if not load.files.manifest.objects:
        return InsertPlan(schema=SourceSchema(types={}, rows=0), loaded=(), settings=settings)
    schema, loaded = yield from read_columns(load.files, request.selection, around.shape.columns)
    ignored = [name for name in schema.types if not any(name == each.column.name for each in loaded)]
    if ignored and not request.selection.select:
        yield Say(name=f"Columns of the files that are not loaded: {', '.join(ignored)}.")
    return InsertPlan(schema=schema, loaded=tuple(loaded), settings=settings)
