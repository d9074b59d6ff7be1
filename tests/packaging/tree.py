"""Places in the tree."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider_chs3"
PAGE = PACKAGE / "plugin" / "page"
NOTICES = "airflow_provider_chs3/plugin/static/third-party-notices.md"
