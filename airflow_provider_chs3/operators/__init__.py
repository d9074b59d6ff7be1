"""Operators; the transfers among them are in `transfers`, as in Airflow's own providers."""

from __future__ import annotations

from airflow.utils.deprecation_tools import add_deprecated_classes

_TRANSFERS = "airflow_provider_chs3.transfers"

add_deprecated_classes(
    {
        "monthly_load": {"monthly_load": f"{_TRANSFERS}.monthly_load.monthly_load"},
        "s3_to_clickhouse": {"S3ToClickHouseOperator": f"{_TRANSFERS}.s3_to_clickhouse.S3ToClickHouseOperator"},
        "s3_months_to_clickhouse": {
            "S3MonthsToClickHouseOperator": f"{_TRANSFERS}.s3_months_to_clickhouse.S3MonthsToClickHouseOperator"
        },
    },
    package=__name__,
    extra_message="The old path will be removed in 0.3.0",
)
