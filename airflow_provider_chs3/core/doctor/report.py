"""What the doctor found: one check each, the nodes, and the settings that a load would send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from airflow_provider_chs3.core.cluster.node_capacity import shown
from airflow_provider_chs3.core.values.error_codes import hint_of
from airflow_provider_chs3.core.values.models import Node, Setting
from airflow_provider_chs3.exceptions import Chs3Error, ClickHouseConnectionError, ClickHouseServerError

_ACCESS_DENIED = 497


class CheckOutcome(StrEnum):
    """How a check ended."""

    OK = "well"
    FINDING = "finding"
    SKIPPED = "left out"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at.

    Args:
        name: What was looked at, in a word or two.
        summary: What was seen, in a sentence without a full stop.
        findings: What is wrong: each a line with the fact, the place and the way out.
        left_out: Why it was not looked at, or not everywhere; empty where it was.
        remarks: What is good to know beside.
    """

    name: str
    summary: str = ""
    findings: tuple[str, ...] = ()
    left_out: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def outcome(self) -> CheckOutcome:
        """How it ended."""
        if self.findings:
            return CheckOutcome.FINDING
        return CheckOutcome.SKIPPED if self.left_out and not self.summary else CheckOutcome.OK

    def with_errors(self, errors: Mapping[Node, Chs3Error]) -> Check:
        """The same, where some nodes could not be asked.

        What the user may not see is no finding here: whether they should see it, the check of privileges says.

        Args:
            errors: Why not.
        """
        denied = {node: error for node, error in errors.items() if is_denied(error)}
        others = {node: error for node, error in errors.items() if node not in denied}
        left_out = "; ".join(filter(None, (self.left_out, *in_lines(denied))))
        return replace(self, findings=(*self.findings, *in_lines(others)), left_out=left_out)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    """One node; None is not known.

    Args:
        node: Its name.
        version: Of ClickHouse.
        answer_seconds: From asking to its answer, with the time to connect.
        clock_ahead_seconds: How far its clock is ahead of this machine's, give or take half of the time to answer.
        cores: That loads go by.
        memory_bytes: That loads go by.
        source: Who says so: `measured`, or who declares them.
        measured_cores: As the server sees them.
        measured_memory_bytes: The server's limit.
        disk_free_bytes: Free on its local disks.
        list_seconds: What the first objects of a listing of S3 take from there, beside the time to answer.
        read_seconds: What a small part of an object takes from there, beside the time to answer.
    """

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
    """All that was found.

    Args:
        checks: In the order in which they are told.
        nodes: Those of the cluster.
        settings: What a load would send, beside what makes every load exact; empty where that is not known.
    """

    checks: tuple[Check, ...]
    nodes: tuple[NodeReport, ...] = ()
    settings: tuple[Setting, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether there is no finding."""
        return not any(check.findings for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON-safe values."""
        return {
            "is_well": self.is_ok,
            "checks": [{**asdict(each), "outcome": str(each.outcome)} for each in self.checks],
            "nodes": [asdict(each) for each in self.nodes],
            "settings": [asdict(each) for each in self.settings],
        }


def is_denied(error: Chs3Error) -> bool:
    """Whether the user may not see what was asked for."""
    return isinstance(error, ClickHouseServerError) and error.code == _ACCESS_DENIED


def in_a_line(text: object) -> str:
    """A text without the ends of its lines."""
    return " ".join(str(text).split())


def told(error: Chs3Error, way_out: str = "") -> str:
    """An error in one line, with its way out.

    Args:
        error: The error.
        way_out: The way out; empty takes what is said of such errors elsewhere.
    """
    message, hint = in_a_line(error), hint_of(error)
    if isinstance(error, ClickHouseServerError):
        # Without the host and the query's id: the line itself says where, and no load is to be looked up.
        message = in_a_line(f"ClickHouse error {error.code}{error.name and f' ({error.name})'}: {error.message}")
    elif isinstance(error, ClickHouseConnectionError):
        message, hint = f"no answer: {in_a_line(error.message)}", "Look whether it is up, and reached from here."
    return in_a_line(f"{message}{'' if message.endswith(('.', '!', '?')) else '.'} {way_out or hint}")


def in_lines(errors: Mapping[Node, Chs3Error], way_out: Callable[[Chs3Error], str] = lambda _: "") -> tuple[str, ...]:
    """A line for each error, however many nodes have it.

    Args:
        errors: The errors.
        way_out: The way out of each; empty takes what is said of such errors elsewhere.
    """
    grouped: dict[object, list[Node]] = {}
    for node, error in errors.items():
        # Texts hold query ids and ports, which differ from node to node.
        key = (error.code,) if isinstance(error, ClickHouseServerError) else str(error)
        grouped.setdefault(key, []).append(node)
    return tuple(f"{named(nodes)}: {told(errors[nodes[0]], way_out(errors[nodes[0]]))}" for nodes in grouped.values())


def named(nodes: Iterable[Node]) -> str:
    """The nodes' names for people."""
    return ", ".join(shown(node) for node in nodes)
