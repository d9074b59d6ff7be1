"""The data of the page, as workflows and plain values: no Airflow, no driver."""
