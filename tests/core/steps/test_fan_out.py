"""Questions to several nodes, some of which do not answer."""

from __future__ import annotations

from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.fan_out import tolerating_errors
from airflow_provider_chs3.core.steps.operations import QueryNodes
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from tests.core.surroundings import ONE, TWO
from tests.support.driving import drive

DOWN = ClickHouseConnectionError("Connection refused", "ch-2:9000")


def test_a_workflow_goes_on_with_the_nodes_that_answer():
    def workflow():
        return (yield QueryNodes(name="ask", sql=dict.fromkeys((ONE, TWO), Sql("SELECT 1"))))

    errors = {}
    assert drive(tolerating_errors(workflow(), errors), {ONE: [(1,)], TWO: DOWN}).result == {ONE: [(1,)]}
    assert errors == {TWO: DOWN}
