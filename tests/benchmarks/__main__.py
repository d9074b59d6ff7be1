"""`./dev bench`: ratios, measured side by side in one run on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from tests.support.long_run import own_airflow


def main() -> int:
    """Run the suites, print what they measure, and write it as a report if asked to."""
    with own_airflow("bench"):
        return _run()


def _run() -> int:
    from tests.benchmarks import report
    from tests.benchmarks.suite import TrialContext, run_suite, suite, suite_names

    parser = _parser(suite_names())
    given = parser.parse_args()
    if unknown := sorted(set(given.suites) - set(suite_names())):
        parser.error(f"no suite: {', '.join(unknown)}; there are {', '.join(suite_names())}")
    bench = TrialContext(
        is_quick=given.quick,
        scale=given.scale,
        rounds=given.rounds or (2 if given.quick else 5),
        s3_name=given.s3,
        console=Console(highlight=False, width=None if os.isatty(1) else 160),
    )
    all_names = [name for name in suite_names() if not given.quick or getattr(suite(name), "IN_QUICK", True)]
    for name in given.suites or all_names:
        measured = run_suite(name, bench, sys.argv[1:])
        if given.report:
            report.write(given.report, measured)
    return 0


def _parser(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(names)} (all of them)")
    parser.add_argument("--quick", action="store_true", help="ten minutes: smaller periods, fewer rounds")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies rows and objects (1)")
    parser.add_argument("--rounds", type=int, help="how often each variant is measured (5; quick: 2)")
    parser.add_argument("--s3", choices=["versitygw", "moto"], help="S3 server (versitygw where it is, or Go is)")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write JSON, Markdown and charts into it")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
