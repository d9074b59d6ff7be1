"""Apache Airflow provider for scheduled loads from S3 into ClickHouse."""

from __future__ import annotations

__version__ = "0.2.0"
