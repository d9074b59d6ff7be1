"""The report of the doctor: the checks, the nodes, and the settings that a load would send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from airflow_provider_chs3.core.model.error_codes import ACCESS_DENIED, hint_of
from airflow_provider_chs3.core.model.models import Node, Setting
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, ClickHouseServerError


class CheckOutcome(StrEnum):
    """The outcome of a check."""

    OK = "well"
    FINDING = "finding"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check."""

    name: str
    summary: str = ""
    findings: tuple[str, ...] = ()
    skipped: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def outcome(self) -> CheckOutcome:
        """Its outcome."""
        if self.findings:
            return CheckOutcome.FINDING
        return CheckOutcome.SKIPPED if self.skipped and not self.summary else CheckOutcome.OK

    def with_errors(self, errors: Mapping[Node, Chs3Error]) -> Check:
        """Return the same check with the errors of nodes that did not answer its query.

        A missing privilege is not a finding here: the check of privileges decides whether the user needs it.
        """
        denied = {
            node: error
            for node, error in errors.items()
            if isinstance(error, ClickHouseServerError) and error.code == ACCESS_DENIED
        }
        others = {node: error for node, error in errors.items() if node not in denied}
        skipped = "; ".join(filter(None, (self.skipped, *in_lines(denied))))
        return replace(self, findings=(*self.findings, *in_lines(others)), skipped=skipped)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    """The report of one node; None means not known."""

    node: str
    version: str | None = None
    answer_seconds: float | None = None
    clock_ahead_seconds: float | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    source: str | None = None
    measured_cores: int | None = None
    measured_memory_bytes: int | None = None
    disk_free_bytes: int | None = None
    list_seconds: float | None = None
    read_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The result of all checks."""

    checks: tuple[Check, ...]
    nodes: tuple[NodeReport, ...] = ()
    settings: tuple[Setting, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Return whether there is no finding."""
        return not any(check.findings for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values."""
        return {
            "is_well": self.is_ok,
            "checks": [{**asdict(check), "outcome": str(check.outcome)} for check in self.checks],
            "nodes": [asdict(node) for node in self.nodes],
            "settings": [asdict(setting) for setting in self.settings],
        }


def in_a_line(text: object) -> str:
    """Return a text without line breaks."""
    return " ".join(str(text).split())


def describe_error(error: Chs3Error, remedy: str = "") -> str:
    """Describe an error in one line, with what to do."""
    message, hint = in_a_line(error), hint_of(error)
    if isinstance(error, ClickHouseServerError):
        # Without the host and the query id: the line itself names the node, and there is no load to look up.
        message = in_a_line(f"ClickHouse error {error.code}{error.name and f' ({error.name})'}: {error.message}")
    elif isinstance(error, ClickHouseConnectionError):
        message = f"no answer: {in_a_line(error.message)}"
        # In brackets, a step says what to check.
        hint = "" if message.endswith(".)") else "Check that it is up and reachable from here."
    return in_a_line(f"{message}{'' if message.endswith(('.', '!', '?', '.)')) else '.'} {remedy or hint}")


def in_lines(errors: Mapping[Node, Chs3Error], remedy: Callable[[Chs3Error], str] = lambda _: "") -> tuple[str, ...]:
    """Describe each error in one line, however many nodes have it."""
    grouped: dict[object, list[Node]] = {}
    for node, error in errors.items():
        # Messages contain query ids and ports, which differ from node to node.
        key = (error.code,) if isinstance(error, ClickHouseServerError) else str(error)
        grouped.setdefault(key, []).append(node)
    return tuple(
        f"{named(nodes)}: {describe_error(errors[nodes[0]], remedy(errors[nodes[0]]))}" for nodes in grouped.values()
    )


def named(nodes: Iterable[Node]) -> str:
    """Return the nodes' names, separated by commas."""
    return ", ".join(str(node) for node in nodes)
