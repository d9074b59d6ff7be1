"""The command line, `python -m airflow_provider_chs3`: the ledger, the doctor, calibrations and rehearsals."""
