"""Report a load to OpenLineage. Nothing is imported or queried unless Airflow's OpenLineage provider calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.exceptions import Chs3Error
from airflow_provider_chs3.operators._support.period_task import PeriodTask

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import DatasetFacet

    from airflow_provider_chs3.core.load.decision import LoadResult
    from airflow_provider_chs3.core.load.load_request import LoadRequest
    from airflow_provider_chs3.core.model.models import TableName
    from airflow_provider_chs3.core.model.period import Period
    from airflow_provider_chs3.core.steps.operations import Insert

#: More objects are reported as the prefix of their keys: catalogues have a node for each dataset.
_MOST_OBJECTS = 20

#: The list of objects may be megabytes, and events are sent over HTTP.
_SQL_CHARACTERS = 10_000


class LoadLineage(PeriodTask):
    """A load of periods that Airflow's OpenLineage provider can ask: objects in, table out.

    Attributes:
        inserts: The inserts that this process has seen.
        results: What the load has done, for each period; empty until it is done.
        followed: Results and errors of the loads of views' tables.
    """

    inserts: Sequence[Insert] = ()
    results: Sequence[dict[str, Any]] = ()
    followed: Sequence[LoadResult] = ()
    #: Once there is a request: its periods.
    _loading: Sequence[Period] = ()
    _request: LoadRequest | None = None

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Return the table: which objects there are is found out later."""
        return self._lineage(inserts=(), inputs=[])

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any]:
        """Return the objects that were read, the table with its rows, the statement and its id."""
        from airflow_provider_chs3.core.model.period import Period

        if not self.results:  # it was skipped
            return self._lineage(inserts=(), inputs=[])
        read = self._that_read() or self.results
        query_ids = {query_id for result in read for query_id in result["query_ids"]}
        ran = [insert for insert in self.inserts if insert.query_id in query_ids]
        # An earlier process of the task may have seen some: only where the objects are is known of all.
        paths = [path for load in ran for path in load.paths] if len(ran) == len(query_ids) else []
        periods = [Period.parse(result["period"]) for result in read]
        return self._lineage(inserts=ran, inputs=self._inputs(paths, periods=periods))

    def get_openlineage_facets_on_failure(self, task_instance: object) -> OperatorLineage[Any, Any]:
        """Return the objects that were to be read, and the statement. The provider itself adds the error."""
        if self._request is None:
            return self._lineage(inserts=(), inputs=[], has_failed=True)
        # Attempts before the last one have started over.
        last = [insert for insert in self.inserts if insert.attempt == self.inserts[-1].attempt]
        paths = [path for load in last for path in load.paths]
        inputs = self._inputs(paths, periods=self._loading)
        return self._lineage(inserts=last, inputs=inputs, has_failed=True)

    def _that_read(self) -> list[Mapping[str, Any]]:
        return [result for result in self.results if result["query_ids"]]

    def _lineage(
        self, *, inserts: Sequence[Insert], inputs: list[InputDataset], has_failed: bool = False
    ) -> OperatorLineage[Any, Any]:
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.facet_v2 import external_query_run, sql_job

        # An event has ten seconds by default, which servers that don't answer, and made the load fail, would use up.
        table = self.on_connection(self.hook()).name
        facets = ({} if has_failed else self._schema(table)) | _checked(self.results)
        output = self._written_to(table, self.results, facets)
        outputs = [output, *self._outputs_of_views()]
        lineage: OperatorLineage[Any, Any] = OperatorLineage(inputs=inputs, outputs=outputs)
        if inserts:
            last = inserts[-1]
            text = last.sql.masked
            query = text if len(text) <= _SQL_CHARACTERS else f"{text[:_SQL_CHARACTERS]} …"
            lineage.job_facets["sql"] = sql_job.SQLJobFacet(query=query, dialect="clickhouse")
            lineage.run_facets["externalQuery"] = external_query_run.ExternalQueryRunFacet(
                externalQueryId=last.query_id, source=output.namespace
            )
        return lineage

    def _inputs(self, paths: Sequence[str], *, periods: Sequence[Period]) -> list[InputDataset]:
        from openlineage.client.event_v2 import InputDataset

        from airflow_provider_chs3.core.files.key_template import KeyTemplate, shared_prefix

        try:
            table = self.on_connection(self.hook()).store(self.as_load()).table_dataset()
        except Chs3Error:  # its catalog does not answer; the rest is worth reporting
            return []
        if table:
            return [InputDataset(*table, inputFacets=self._input_facets())]
        if 0 < len(paths) <= _MOST_OBJECTS:
            return [InputDataset(*self.store.dataset(path)) for path in sorted(paths)]
        store = self.store
        if store.place:
            template = KeyTemplate(store.template)
            prefixes = {f"{store.place}/{template.keys_of(period).prefix}" for period in periods}
            if len(prefixes) > 1:
                return [InputDataset(*store.dataset(prefix.rstrip("/"))) for prefix in sorted(prefixes)]
            (prefix,) = prefixes
        elif paths:
            prefix = shared_prefix(sorted(paths))
        else:  # the named collection knows, and servers do not say
            return []
        return [InputDataset(*store.dataset(prefix.rstrip("/")), inputFacets=self._input_facets())]

    def _input_facets(self) -> dict[str, Any]:
        from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet

        if not (read := self._that_read()):
            return {}
        objects, size_bytes = (sum(result[name] for result in read) for name in ("loaded_objects", "loaded_bytes"))
        return {"inputStatistics": InputStatisticsInputDatasetFacet(fileCount=objects, size=size_bytes)}

    def _outputs_of_views(self) -> Iterator[OutputDataset]:
        for table in dict.fromkeys(result.target for result in self.followed):
            yield self._written_to(table, [result.as_json() for result in self.followed if result.target == table], {})

    def _written_to(
        self, table: TableName, results: Sequence[Mapping[str, Any]], facets: dict[str, DatasetFacet]
    ) -> OutputDataset:
        """Return a table, with how much of it was written, if anything was."""
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import lifecycle_state_change_dataset as lifecycle

        namespace, output_facets = self.hook().options.namespace, dict[str, Any]()
        if written := [result for result in results if result["status"] == "published"]:
            change = lifecycle.LifecycleStateChange.OVERWRITE
            facets["lifecycleStateChange"] = lifecycle.LifecycleStateChangeDatasetFacet(lifecycleStateChange=change)
            output_facets = _written(written)
        return OutputDataset(namespace, str(table), facets=facets, outputFacets=output_facets)

    def _schema(self, table: TableName) -> dict[str, DatasetFacet]:
        from openlineage.client.facet_v2 import schema_dataset

        from airflow_provider_chs3.core.sql.quoting import in_table

        sql = f"SELECT name, type, comment, position FROM system.columns WHERE {in_table(table)} ORDER BY position"
        try:
            rows = self.hook().query(sql)
        except Chs3Error:
            # The rest is worth reporting.
            return {}
        fields = [
            schema_dataset.SchemaDatasetFacetFields(
                name=name, type=type_, description=comment or None, ordinal_position=position
            )
            for name, type_, comment, position in rows
        ]
        return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {}


def _checked(results: Sequence[Mapping[str, Any]]) -> dict[str, DatasetFacet]:
    """Return what checks have found, if there are any."""
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality

    assertions = [
        quality.Assertion(assertion=check["name"], success=check["has_passed"])
        for result in results
        for check in result["checks"]
    ]
    return {"dataQualityAssertions": quality.DataQualityAssertionsDatasetFacet(assertions)} if assertions else {}  # type: ignore[dict-item]  # for inputs, as OpenLineage has it


def _written(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how much was written, and the periods as a subset of the table."""
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics
    from openlineage.client.generated import base_subset_dataset as subset

    periods = [
        subset.Partition(identifier=result["period"], dimensions={"period": result["period"]}) for result in results
    ]
    rows, size_bytes = (sum(result[name] for result in results) for name in ("rows", "table_bytes"))
    return {
        "outputStatistics": statistics.OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size_bytes or None),
        "subset": subset.OutputSubsetOutputDatasetFacet(
            outputCondition=subset.PartitionSubsetCondition(partitions=periods)
        ),
    }
