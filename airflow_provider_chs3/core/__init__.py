"""Decisions, as pure functions of plain data: no Airflow, no driver, no boto3, no clock, no environment."""
