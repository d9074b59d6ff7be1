"""Check which nodes answer, their versions, and their clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from airflow_provider_chs3.core.doctor.report import Check, in_lines, named
from airflow_provider_chs3.core.model.models import Node
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.operations import Steps, TimedAnswer, TimeQueryNodes
from airflow_provider_chs3.core.target.topology import too_old
from airflow_provider_chs3.exceptions import Chs3Error

#: Clocks that NTP sets are closer than this; it also covers the time that a busy server takes to read its own.
CLOCK_TOLERANCE_SECONDS = 2.0

WORKER = "this machine"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeProbe:
    """A node that answered."""

    version: str
    user: str
    seconds: float
    clock: Clock


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds by which a node's clock is ahead of the worker's; negative if it is behind.

    A node read its clock at some moment between question and answer, so only a minimum and a maximum are known.
    """

    least: float
    most: float

    @property
    def middle(self) -> float:
        """The best estimate."""
        return (self.least + self.most) / 2

    def apart(self, other: Clock) -> float:
        """Return the smallest possible lead over another clock; 0 if they may be equal."""
        return max(0.0, self.least - other.most) + min(0.0, self.most - other.least)


def probe_nodes(nodes: Iterable[Node]) -> Steps[tuple[dict[Node, NodeProbe], dict[Node, Chs3Error]]]:
    """Ask every node for its version, user and time; return those that answered, and the errors of the others."""
    sql = Sql("SELECT version(), currentUser(), toFloat64(now64(6))")
    answers = yield from TimeQueryNodes(name="Ask every node for its version", sql=dict.fromkeys(nodes, sql))
    errors = {node: timed.answer for node, timed in answers.items() if isinstance(timed.answer, Chs3Error)}
    return {node: _probe(timed) for node, timed in answers.items() if node not in errors}, errors


def _probe(timed: TimedAnswer) -> NodeProbe:
    version, user, seconds = timed.answer[0]
    clock = Clock(seconds - (timed.began_at + timed.seconds), seconds - timed.began_at)
    return NodeProbe(version=version, user=user, seconds=timed.seconds, clock=clock)


def check_connection(
    hosts: Sequence[tuple[bool, str]],
    probes: Mapping[Node, NodeProbe],
    errors: Mapping[Node, Chs3Error],
    *,
    cluster: str | None,
) -> Check:
    """Check that the hosts of the connection and the nodes of the cluster answer."""
    users = ", ".join(sorted({repr(probe.user) for probe in probes.values()}))
    slowest = max((probe.seconds for probe in probes.values()), default=0.0)
    where = f"all {len(probes)} nodes of cluster {cluster!r} answer" if cluster else "the server answers"
    if errors:
        where = f"{len(probes)} of {len(probes) + len(errors)} nodes of cluster {cluster!r} answer"
    return Check(
        name="connection",
        summary=f"{where} as user {users}, within {slowest * 1000:.0f} ms" if probes else "",
        findings=(*failing_hosts(hosts), *in_lines(errors)),
    )


def failing_hosts(hosts: Sequence[tuple[bool, str]]) -> tuple[str, ...]:
    """Return the problems of the connection's hosts, one line each."""
    return tuple(f"host of the connection: {message}" for works, message in hosts if not works)


def check_versions(probes: Mapping[Node, NodeProbe]) -> Check:
    """Check that all versions are supported and equal."""
    versions = {node: probe.version for node, probe in probes.items()}
    findings = list(too_old(versions))
    (usual, _), *others = Counter(versions.values()).most_common()
    if others:
        odd = ", ".join(f"{version} on {named(_nodes_with(versions, version))}" for version, _ in others)
        findings.append(
            f"nodes run different versions: {usual} on {named(_nodes_with(versions, usual))}, {odd}: "
            "install the same version on all. Until then, loads send only the settings that every node knows."
        )
    return Check(
        name="versions", summary=f"ClickHouse {', '.join(sorted(set(versions.values())))}", findings=(*findings,)
    )


def _nodes_with(versions: Mapping[Node, str], version: str) -> list[Node]:
    return [node for node, its in versions.items() if its == version]


def check_clocks(probes: Mapping[Node, NodeProbe]) -> Check:
    """Check that the clocks of nodes and worker agree.

    Loads do not depend on clocks. But S3 refuses requests whose signature is a quarter of an hour off, and the times in
    the ledger and the logs, and `min_object_age_seconds`, use them.
    """
    clocks = {WORKER: Clock(0.0, 0.0)} | {str(node): probe.clock for node, probe in probes.items()}
    # The median: if one clock of three or more is wrong, the median is a right one.
    usual = median_low(clock.middle for clock in clocks.values())
    reference = next(name for name, clock in clocks.items() if clock.middle == usual)
    apart = {name: clock.apart(clocks[reference]) for name, clock in clocks.items()}
    findings = [
        f"the clock of {name} is at least {abs(seconds):,.1f} s {'ahead of' if seconds > 0 else 'behind'} that of "
        f"{reference}: synchronize both with NTP (chrony, systemd-timesyncd)."
        for name, seconds in apart.items()
        if abs(seconds) > CLOCK_TOLERANCE_SECONDS
    ]
    farthest = max(abs(seconds) for seconds in apart.values())
    widest = max((clock.most - clock.least for clock in clocks.values()), default=0.0)
    return Check(
        name="clocks",
        summary=f"nodes and {WORKER} agree within {max(farthest, widest) * 1000:,.0f} ms"
        if not findings
        else f"up to {farthest:,.1f} s apart",
        findings=tuple(findings),
    )
