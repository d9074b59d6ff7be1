"""The pages of operators, sensors and transfers, and what they have to say."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_chs3.client.landing import Landing
from airflow_provider_chs3.client.unloading import Unload
from airflow_provider_chs3.core.load.decision import LoadResult
from airflow_provider_chs3.core.load.end_on_request import Orphan
from airflow_provider_chs3.core.periods import status
from airflow_provider_chs3.core.periods.adopt import AdoptedPeriod
from airflow_provider_chs3.core.periods.digests import ObjectFinding
from airflow_provider_chs3.core.periods.discard import DiscardedPeriod
from airflow_provider_chs3.core.periods.forget import ForgottenPeriod
from airflow_provider_chs3.core.periods.proved_period import ProvedPeriod
from airflow_provider_chs3.core.periods.restore import ListedVersion, RestoredPeriod
from airflow_provider_chs3.core.watch import health
from airflow_provider_chs3.core.watch import optimize_job as job
from airflow_provider_chs3.core.watch.merge_rate import MergeRate
from airflow_provider_chs3.operators._support.period_load_task import PeriodLoadTask

_FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "operators"

#: The name in a page's title → the page.
PAGES = {page.read_text(encoding="utf-8").partition("\n")[0][2:]: page for page in _FOLDER.glob("*.md")}

#: The functions that make the dicts that operators return; loads from every storage return that of S3.
_RESULTS: Mapping[str, tuple[Callable[..., Any] | type[Any], ...]] = {
    "S3ToClickHouseOperator": (LoadResult, PeriodLoadTask.done),
    "OptimizePartitionOperator": (job.results,),
    "ClickHouseMergeHealthSensor": (health.as_json, MergeRate.as_json),
    "ListLedgerOperator": (status.PeriodInLedger, status._node_as_json),
    "AdoptPeriodsOperator": (AdoptedPeriod,),
    "ProvePeriodsOperator": (ProvedPeriod, ObjectFinding),
    "ForgetPeriodsOperator": (ForgottenPeriod,),
    "ListVersionsOperator": (ListedVersion,),
    "DiscardPeriodsOperator": (DiscardedPeriod,),
    "RestorePeriodsOperator": (RestoredPeriod,),
    "UnpinPeriodsOperator": (RestoredPeriod,),
    "CleanStagingOperator": (Orphan,),
    "KafkaToS3Operator": (Landing.run, Landing._result),
    "ClickHouseToS3Operator": (Unload._result,),
}
#: Those that return no dict of their own.
_WITHOUT_KEYS = {
    *("scheduled_load", "PlanLoadsOperator", "EmitPeriodOperator", "ApprovePeriodsOperator"),
    *("ClickHouseOperator", "ClickHouseSensor"),
}


def operators() -> dict[str, type[BaseOperator]]:
    """Return the public operators and sensors, but for bases, which do nothing of their own."""
    found = {}
    for folder in ("operators", "transfers", "sensors"):
        package = importlib.import_module(f"airflow_provider_chs3.{folder}")
        for each in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{each.name}")
            found |= {name: value for name, value in vars(module).items() if _is_public(value, module.__name__)}
    return found


def _is_public(value: Any, module_name: str) -> bool:
    is_operator = inspect.isclass(value) and issubclass(value, BaseOperator) and value.__module__ == module_name
    return is_operator and not value.__name__.startswith("_") and value.execute is not BaseOperator.execute


def text_of(name: str) -> str:
    """Return the text of an operator's page."""
    return PAGES[name].read_text(encoding="utf-8")


def section(name: str, title: str) -> str:
    """Return a section of an operator's page, or the section of S3's where it says that this is the same."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text_of(name), re.DOTALL | re.MULTILINE)
    assert found, f"{PAGES[name]} has no section {title}"
    is_that_of_s3 = title == "Result" and name != "S3ToClickHouseOperator" and issubclass(_type(name), PeriodLoadTask)
    if is_that_of_s3:
        assert "(s3-to-clickhouse.md#result)" in found[1]
        return section("S3ToClickHouseOperator", title)
    return found[1]


def keys_of_result(name: str) -> set[str]:
    """Return the keys of what an operator returns, as the source has them."""
    if name in _WITHOUT_KEYS:
        return set()
    name = "S3ToClickHouseOperator" if issubclass(_type(name), PeriodLoadTask) else name
    return {key for result in _RESULTS[name] for key in _keys(result)}


def _type(name: str) -> type:
    return operators().get(name, object)


def _keys(of: Callable[..., Any] | type[Any]) -> set[str]:
    """Return the keys of dicts that a function writes out, or the fields of a class, and what it adds to them."""
    if inspect.isclass(of):
        return {*of.__dataclass_fields__, *_keys(of.as_json)}
    dicts = (node for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(of)))) if isinstance(node, ast.Dict))
    return {key.value for each in dicts for key in each.keys if isinstance(key, ast.Constant)}
