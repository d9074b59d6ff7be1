"""`chs3 doctor`, `chs3 plan` and the other commands; `python -m airflow_provider_chs3` is the same."""

from __future__ import annotations

import os
from typing import NoReturn

from airflow_provider_chs3.cli.main import leave, main


def run() -> NoReturn:
    """Run the command that the process's arguments name, and end with its exit code."""
    # As Airflow's own command line does: connections may be in its database.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    leave(main())


if __name__ == "__main__":
    run()
