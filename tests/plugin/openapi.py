"""The schema of the API's answers, from which the page's types are made: `python -m tests.plugin.openapi` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_chs3 import plugin
from airflow_provider_chs3.plugin.app import create_app

SCHEMA = Path(plugin.__file__).parent / "page" / "openapi.json"


def current() -> dict[str, Any]:
    """The schema as the routes have it."""
    return create_app().openapi()


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(current(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
