"""What Airflow's UI loads: small enough, and of the types that the API answers with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from airflow_provider_chs3 import plugin
from tests.plugin.openapi import SCHEMA, current

BUNDLE = Path(plugin.__file__).parent / "static" / "main.js"
MOST_BYTES = 300_000
#: Of FastAPI, in which its versions differ.
FOREIGN = {"HTTPValidationError", "ValidationError"}


def test_the_bundle_is_small_where_it_is_compressed() -> None:
    assert len(gzip.compress(BUNDLE.read_bytes())) < MOST_BYTES


def test_the_page_is_built_for_the_answers_of_the_api() -> None:
    kept = json.loads(SCHEMA.read_text(encoding="utf-8"))["components"]["schemas"]
    found = current()["components"]["schemas"]
    told = "run `python -m tests.plugin.openapi`"
    assert {name: kept[name] for name in kept.keys() - FOREIGN} == {
        name: found[name] for name in found.keys() - FOREIGN
    }, told
