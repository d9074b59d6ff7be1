"""The ledger from the shell: `python -m airflow_provider_chs3`."""
