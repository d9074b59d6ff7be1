"""`python -m airflow_provider_chs3 ledger`, `plan`, `adopt`, `forget` or `clean`."""

from __future__ import annotations

import sys

from airflow_provider_chs3.shell.main import main

if __name__ == "__main__":
    sys.exit(main())
