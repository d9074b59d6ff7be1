"""The published documentation leads to that of other packages, and to the same page of other versions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

CONFIGURATION = Path(__file__).parents[1] / "docs"

#: The subjects that other packages list as described, each with its page.
DESCRIBED = {
    "python": {"collections.abc.Sequence": "py:class library/collections.abc.html"},
    "airflow-sdk": {"airflow.sdk.Context": "py:class api.html", "airflow.sdk.TaskGroup": "py:class api.html"},
    "clickhouse-driver": {"clickhouse_driver.Client": "py:class api.html"},
    "pyarrow": {"pyarrow.Table": "py:class python/generated/pyarrow.Table.html"},
    "sqlalchemy": {"sqlalchemy.engine.Engine": "py:class core/connections.html"},
}

#: Builds with the inventories in a folder, of what `conf.py` would fetch.
BUILD = """
import runpy
import sys
from pathlib import Path
from sphinx.application import Sphinx
configuration, source, out, inventories = sys.argv[1:]
mapping = runpy.run_path(f"{configuration}/conf.py")["intersphinx_mapping"]
local = {name: (url, str(Path(inventories) / f"{name}.inv")) for name, (url, _) in mapping.items()}
app = Sphinx(source, configuration, out, f"{out}-doctrees", "html", {"intersphinx_mapping": local}, status=None,
             warningiserror=True)
app.build()
sys.exit(app.statuscode)
"""

PAGE = """# Page

```{eval-rst}
.. autoclass:: airflow_provider_chs3.load.Load
.. autofunction:: airflow_provider_chs3.transfers.scheduled_load.scheduled_load
.. autoclass:: airflow_provider_chs3.hooks.clickhouse.ClickHouseHook
   :members: client, get_sqlalchemy_engine
.. autoclass:: airflow_provider_chs3.operators.plan_loads.PlanLoadsOperator
   :members: execute
.. autoclass:: airflow_provider_chs3.testbed.trips.Trips
   :members: table
```
"""


def _inventory(described: dict[str, str]) -> bytes:
    lines = [f"{name} {place.split()[0]} 1 {place.split()[1]}#$ -\n" for name, place in described.items()]
    head = ["Sphinx inventory version 2", "Project: other", "Version: 1", "What follows is compressed with zlib."]
    return "".join(f"# {line}\n" for line in head).encode() + zlib.compress("".join(lines).encode())


@pytest.mark.thorough
def test_types_of_other_packages_lead_to_their_documentation(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(PAGE, encoding="utf-8")
    for name, described in DESCRIBED.items():
        (tmp_path / f"{name}.inv").write_bytes(_inventory(described))
    environment = {**os.environ, "CHS3_DOCS_INTERSPHINX": "1"}
    arguments = [str(CONFIGURATION), str(source), str(tmp_path / "html"), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", BUILD, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'class="reference external" href="([^"]+)"', page))
    assert linked == {
        "https://airflow.apache.org/docs/task-sdk/stable/api.html#airflow.sdk.Context",
        "https://airflow.apache.org/docs/task-sdk/stable/api.html#airflow.sdk.TaskGroup",
        "https://arrow.apache.org/docs/python/generated/pyarrow.Table.html#pyarrow.Table",
        "https://clickhouse-driver.readthedocs.io/en/stable/api.html#clickhouse_driver.Client",
        "https://docs.python.org/3/library/collections.abc.html#collections.abc.Sequence",
        "https://docs.sqlalchemy.org/en/20/core/connections.html#sqlalchemy.engine.Engine",
    }
