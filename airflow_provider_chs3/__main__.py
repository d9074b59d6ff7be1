"""`chs3 doctor`, `chs3 plan` and the other commands; `python -m airflow_provider_chs3` is the same."""

from __future__ import annotations

import os
import sys

from airflow_provider_chs3.cli.main import main


def run() -> int:
    """Run the command that the process's arguments name, and return its exit code."""
    # As Airflow's own command line does: connections may be in its database.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    return main()


if __name__ == "__main__":
    sys.exit(run())
