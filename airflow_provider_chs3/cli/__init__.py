"""The ledger, the doctor, calibrations and rehearsals from the command line: `python -m airflow_provider_chs3`."""
