"""The ledger and the doctor from the command line: `python -m airflow_provider_chs3`."""
