"""The package loads a month as most users install it: without extras."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.lake import MONTH, Lake

TRIPS = Trips(rows_per_month=600, files_per_month=3)


def test_a_month_is_loaded_with_the_required_libraries_alone(trips_lake: Lake) -> None:
    trips_lake.upload(TRIPS)
    arguments = {
        "bucket": trips_lake.bucket,
        "key": "trips/{YYYY-MM}/",
        "database": trips_lake.database,
        "table": trips_lake.table,
        "month": MONTH,
        "cluster": trips_lake.cluster.name,
    }
    program = Path(__file__).with_name("without_extras.py")
    done = subprocess.run(
        [sys.executable, program, json.dumps(arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    told = json.loads(done.stdout.splitlines()[-1])
    # What is absent is there for other tests.
    assert {"zstd", "pyarrow", "moto"} <= set(told["absent"])
    assert told["rows"] == 600
    assert trips_lake.facts() == TRIPS.facts(MONTH)
