"""`python -m airflow_provider_chs3 ledger`, `plan`, `adopt`, `forget`, `clean` or `doctor`."""

from __future__ import annotations

import os
import sys

from airflow_provider_chs3.cli.main import main

if __name__ == "__main__":
    # As Airflow's own command line does: connections may be in its database.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    sys.exit(main())
