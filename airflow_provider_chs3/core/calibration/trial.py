"""One trial of a calibration: load a sample into a throw-away table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_provider_chs3.core.attempt.insert_plan import InsertPlan
from airflow_provider_chs3.core.attempt.load_context import LoadContext
from airflow_provider_chs3.core.calibration.search import Candidate, TrialResult
from airflow_provider_chs3.core.cluster.node_capacity import NodeNow, SizedNode
from airflow_provider_chs3.core.files.data_volume import DataVolume, shape_of
from airflow_provider_chs3.core.files.file_groups import Reading
from airflow_provider_chs3.core.insertion.insert_statement import insert_step
from airflow_provider_chs3.core.sql.quoting import Sql, in_table
from airflow_provider_chs3.core.staging.ending import end_attempts
from airflow_provider_chs3.core.staging.tables import Attempt, create_staging
from airflow_provider_chs3.core.tuning.calibrated_profile import BY_RULE, Circumstances, Knobs, Profile
from airflow_provider_chs3.core.tuning.insert_settings import load_settings
from airflow_provider_chs3.core.tuning.resource_share import ResourceShare, resource_share_of, smallest
from airflow_provider_chs3.core.values.error_codes import MEMORY_LIMIT_EXCEEDED
from airflow_provider_chs3.core.values.models import Manifest, Node
from airflow_provider_chs3.core.workflow.operations import InsertSideBySide, InsertStats, ReadClock, Steps
from airflow_provider_chs3.exceptions import ClickHouseServerError


@dataclass(frozen=True, slots=True)
class TrialAttempt(Attempt):
    """The tables of one calibration, independent of the loads of the table's periods: neither cancels the other."""

    @property
    def prefix(self) -> str:
        """Name prefix of all calibrations of this table."""
        identity = f"{self.target.database}\0{self.target.table}\0calibration"
        return f"chs3_{hashlib.sha256(identity.encode()).hexdigest()[:16]}_"


@dataclass(frozen=True, kw_only=True)
class TrialContext:
    """The context that all trials share.

    Args:
        load: A load of the sample.
        now: State of the nodes before the calibration ran anything.
        nodes: Node → its cores and memory for loads.
        reading: The data to read from the sample.
        whole: All of the period's files.
        began: Start of the calibration, by the clock of `ReadClock`.
    """

    load: LoadContext
    now: Mapping[Node, NodeNow]
    nodes: Mapping[Node, SizedNode]
    reading: Reading
    whole: Manifest
    began: float

    def resource_share_of(self, periods: int, side_by_side: int) -> ResourceShare:
        """Compute the resource share of the load of one part of the sample.

        Args:
            periods: Number of parts into which the sample is divided.
            side_by_side: Number of parts that load at the same time.
        """
        spec = smallest(each.spec for each in self.nodes.values())
        share = replace(self.load.request.share, parallel_loads=side_by_side)
        # The last of them to begin finds the others already running.
        now = [replace(each, inserts=each.inserts + side_by_side - 1) for each in self.now.values()]
        return resource_share_of(spec, share, self._data(periods), now)

    def plan(
        self,
        knobs: Knobs,
        *,
        periods: int = 1,
        side_by_side: int = 1,
        is_limited: bool = False,
        profile: Profile | None = None,
    ) -> InsertPlan:
        """Plan the inserts of a trial.

        Args:
            knobs: Deviations from the rules.
            periods: As for `resource_share_of`. Default: 1.
            side_by_side: As for `resource_share_of`. Default: 1.
            is_limited: Whether the servers limit it to its own share of the memory instead of all loads' share.
                Default: False.
            profile: The profile that gives settings their reason. Default: None, no reasons needed.
        """
        request, one = self.load.request, self.resource_share_of(periods, side_by_side)
        if is_limited:
            one = replace(one, limit_bytes=min(one.memory_bytes, one.limit_bytes))
        settings = load_settings(
            one=one,
            data=self._data(periods),
            known=self.load.context.known_settings,
            own=request.settings,
            null_as_default=request.selection.null_as_default,
            by_sharding_key=request.policies.distribution == "sharding_key",
            profile=profile or _placeholder_profile(knobs),
            store=request.source.kind,
        )
        return InsertPlan(reading=self.reading, settings=settings, memory_bytes=one.memory_bytes, memory_steps=0)

    def is_same(self, knobs: Knobs, others: Knobs) -> bool:
        """Check whether two sets of knobs lead to the same settings: one may be fixed, or memory short."""
        return self.plan(knobs).setting_values == self.plan(others).setting_values

    def parts(self, periods: int) -> list[LoadContext]:
        """Divide the sample into so many parts: every file is in one of them."""
        objects = self.load.files.manifest.objects
        return [self.load.of_objects(Manifest.of(objects[number::periods])) for number in range(periods)]

    def _data(self, periods: int) -> DataVolume:
        reading, part = self.reading, self.parts(periods)[0]
        part_reading = replace(
            reading,
            rows=None if reading.rows is None else reading.rows // periods,
            uncompressed_bytes=None if reading.uncompressed_bytes is None else reading.uncompressed_bytes // periods,
        )
        is_remote = any(each.is_on_remote_disk for each in self.now.values())
        return shape_of(part.files, part_reading, nodes=len(self.nodes), is_on_remote_disk=is_remote)


def _placeholder_profile(knobs: Knobs) -> Profile | None:
    """Return a profile with these knobs, for trials: its other values are placeholders."""
    if knobs == BY_RULE:
        return None
    nowhere = Circumstances(files="", nodes=0, cores=0, memory_bytes=0, version="")
    return Profile(knobs=knobs, parallel_loads=None, measured_on=nowhere, at="", seconds=0.0, rule_seconds=0.0)


def run_trial(bench: TrialContext, candidate: Candidate, *, number: int) -> Steps[TrialResult]:
    """Load the sample into a new table, and drop it.

    If the candidate deviates from the rule, the servers themselves limit it to a load's share of the memory.

    Args:
        bench: The context that all trials share.
        candidate: The settings to load with.
        number: The trial's number, which makes the table's name unique.

    Raises:
        ClickHouseServerError: If a statement fails, except for exceeding that limit.
    """
    request = bench.load.request
    trial = TrialAttempt(bench.load.context.target, (request.period,), f"{request.nonce}t{number:03d}")
    plan = bench.plan(
        candidate.knobs,
        periods=candidate.periods,
        side_by_side=candidate.side_by_side,
        is_limited=candidate.knobs != BY_RULE,
    )
    yield from create_staging(bench.load.context, trial)
    try:
        stats = yield from _insert(bench, candidate, plan, trial)
        parts = yield from _count_parts(bench, trial)
    except ClickHouseServerError as error:
        yield from end_attempts(bench.load.context, trial)
        if error.code != MEMORY_LIMIT_EXCEEDED or candidate.knobs == BY_RULE:
            raise
        stats, parts = None, 0
    else:
        yield from end_attempts(bench.load.context, trial)
    now = yield from ReadClock(name="Read the clock")
    return TrialResult(
        seconds=stats.seconds if stats else None,
        parts=parts,
        peak_memory_bytes=stats.peak_memory_bytes if stats else None,
        at_seconds=now - bench.began,
    )


def _insert(bench: TrialContext, candidate: Candidate, plan: InsertPlan, trial: TrialAttempt) -> Steps[InsertStats]:
    """Insert the parts of the sample, a limited number at a time."""
    seconds, read_rows, peaks = 0.0, 0, [0]
    steps = [
        insert_step(
            part, plan, group, batch, into=trial.staging(bench.load.context), query_id=f"{trial.name}_insert{at}_{each}"
        )
        for at, part in enumerate(bench.parts(candidate.periods))
        for each, (group, batch) in enumerate(plan.reading.batches(part.files))
    ]
    for first in range(0, len(steps), candidate.side_by_side):
        inserts = tuple(steps[first : first + candidate.side_by_side])
        done = yield from InsertSideBySide(name=f"Try {candidate.label}", inserts=inserts)
        seconds += max(each.seconds for each in done)
        read_rows += sum(each.read_rows for each in done)
        peaks.append(sum(each.peak_memory_bytes or 0 for each in done))
    return InsertStats(seconds, read_rows, max(peaks) or None)


def _count_parts(bench: TrialContext, trial: TrialAttempt) -> Steps[int]:
    """Count the parts that were written, including those that have been merged since: they are still listed."""
    staging = trial.staging(bench.load.context)
    sql = Sql(f"SELECT countIf(level = 0) FROM system.parts WHERE {in_table(staging)}")
    answers = yield bench.load.context.on_each(name="Count the parts of the trial", sql=sql)
    return sum(answers[node][0][0] for node in bench.load.context.publishers)
