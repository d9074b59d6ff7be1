"""The result of a load."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_provider_chs3.core.load.load_result import LoadResult
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.model.period import Period


class TestLoadResult:
    RESULT = LoadResult(
        status="published",
        period=Period.of_month(2026, 10),
        target=TableName("db", "trips"),
        reason="never loaded",
        objects=2,
        rows=3_000_000,
        loaded_objects=2,
        loaded_rows=3_000_000,
        rows_by_node={"a:9000": 1_000_000, "b:9000": 2_000_000},
        parts=2,
        insert_seconds=1.5,
        query_ids=("q1",),
        settings={"max_insert_threads": 4},
    )

    def test_survives_json(self):
        values = self.RESULT.as_json()
        assert json.loads(json.dumps(values)) == values

    def test_names_period_and_table_as_text(self):
        values = self.RESULT.as_json()
        assert (values["period"], values["target"]) == ("2026-10", "db.trips")

    def test_is_told_in_one_line(self):
        assert self.RESULT.summary() == (
            "db.trips 2026-10 published (never loaded): 3,000,000 rows from 2 objects in 1.5 s (2,000,000 rows/s), "
            "2 parts on 2 nodes."
        )

    def test_rows_of_a_database_are_not_of_objects(self):
        assert replace(self.RESULT, objects=0, loaded_objects=0).summary() == (
            "db.trips 2026-10 published (never loaded): 3,000,000 rows in 1.5 s (2,000,000 rows/s), 2 parts on 2 nodes."
        )

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"status": "skipped", "reason": "no objects"}, "skipped: no objects."),
            ({"status": "unchanged", "reason": "as published"}, "unchanged (as published): 3,000,000 rows"),
            ({"insert_seconds": 0.0}, "(nothing to insert)"),
            ({"loaded_objects": 1, "loaded_rows": 3}, "rows from 2 objects, 3 of them new, in 1.5 s (2 rows/s)"),
            ({"other_period_rows": 7}, "; 7 rows of other periods left out."),
        ],
    )
    def test_the_line_says_what_is_special(self, change, text):
        assert text in replace(self.RESULT, **change).summary()
