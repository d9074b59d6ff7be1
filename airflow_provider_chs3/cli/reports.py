"""The reports of commands about loads: a table for people, values for programs, and whether all is fine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_provider_chs3.cli.arguments import periods_of
from airflow_provider_chs3.cli.errors import describe_error
from airflow_provider_chs3.cli.loads import ChosenLoad, choose_loads
from airflow_provider_chs3.cli.tables import rendered


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of a command: rows of a table, the same as values, and notes below the table."""

    header: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    values: list[dict[str, Any]] | dict[str, Any]
    summary: str = ""
    is_fine: bool = True
    has_failed: bool = False
    notes: Sequence[str] = ()
    nothing: str = ""
    text: str = ""

    def __str__(self) -> str:
        table = rendered(self.header, self.rows) if self.rows else self.nothing
        return self.text or "\n\n".join(filter(None, (table, *self.notes)))


Command: TypeAlias = Callable[[argparse.Namespace], Report]
CommandForLoad: TypeAlias = Callable[[argparse.Namespace, ChosenLoad], Report]


def for_loads(command: CommandForLoad) -> Command:
    """Return a command for all loads that the command line names: one table, and a line as each is done."""

    def run(given: argparse.Namespace) -> Report:
        if "first" in given:
            # A wrong one is an error before anything is looked up.
            periods_of(given)
        chosen = choose_loads(given)
        if not chosen[0].is_declared:
            return command(given, chosen[0])
        reports: dict[str, Report] = {}
        errors: dict[str, str] = {}
        for load in given.progress.through(chosen):
            try:
                reports[load.name] = command(given, load)
                given.progress.tell(f"{load.name}: {reports[load.name].summary}")
            except Exception as error:
                # One table that cannot be reached must not hide the others.
                errors[load.name] = describe_error(error)
                given.warn(f"{load.name}: {errors[load.name]}")
        return _joined(reports, errors)

    return run


def or_of_all(of_all: Command, command: CommandForLoad) -> Command:
    """Return a command for the loads that the command line names; for all tables of a connection, if it names none."""

    def run(given: argparse.Namespace) -> Report:
        names_none = not (given.table or given.loads or given.dag)
        return of_all(given) if names_none else for_loads(command)(given)

    return run


def _joined(reports: Mapping[str, Report], errors: Mapping[str, str]) -> Report:
    header = next((["load", *report.header] for report in reports.values() if report.rows), [])
    rows = [[name, *row] for name, report in reports.items() for row in report.rows]
    values = [
        {"load": name, **value}
        for name, report in reports.items()
        for value in (report.values if isinstance(report.values, list) else [report.values])
    ]
    notes = [f"{name}: {note}" for name, report in reports.items() for note in report.notes if note]
    whole_texts = [report.text for report in reports.values() if report.text]
    texts = [*([rendered(header, rows)] if rows else []), *notes]
    if len(whole_texts) == 1 and not errors:
        # A table of one load says less than the load's own text.
        texts = whole_texts
    return Report(
        values=[*values, *({"load": name, "error": text} for name, text in errors.items())],
        # Lines of progress stand above.
        text="".join(f"\n{text}" for text in texts),
        is_fine=all(report.is_fine for report in reports.values()),
        has_failed=bool(errors),
    )
