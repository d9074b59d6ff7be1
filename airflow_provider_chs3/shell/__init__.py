"""The ledger and the doctor from the shell: `python -m airflow_provider_chs3`."""
