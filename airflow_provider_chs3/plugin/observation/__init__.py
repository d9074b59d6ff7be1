"""What the page shows, as workflows and plain values: no Airflow, no driver."""
