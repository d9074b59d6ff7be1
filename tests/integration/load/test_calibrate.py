"""Calibration against the real cluster: what it stores, when loads go by it, and that nothing else is touched."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_chs3.cli.main import main
from airflow_provider_chs3.core.ledger.table import COLUMNS
from airflow_provider_chs3.core.workflow.operations import InsertSideBySide, Step
from airflow_provider_chs3.exceptions import NotReadyError
from airflow_provider_chs3.operators.calibrate import CalibrateLoadOperator
from airflow_provider_chs3.operators.ledger import CleanStagingOperator, ListLedgerOperator
from airflow_provider_chs3.plugin.observation.periods_queries import records
from airflow_provider_chs3.runners.blocking import Runner
from airflow_provider_chs3.testbed.cluster import ClickHouseCluster
from airflow_provider_chs3.testbed.trips import Trips
from tests.integration.calibrating import GIVEN, SMALLEST_BUDGET, TRIPS, Timed, calibrate, calibrate_operator
from tests.integration.lake import PERIOD, Lake, lake_on, recorded_loads
from tests.narrow_user import WITH_NARROW_USER

if TYPE_CHECKING:
    from airflow_provider_chs3.testbed.nodes import Cluster

#: Loads' share of a node, and the slice of one of two, are above what the profile of a user allows a query.
PROFILE_BYTES = 512 * 1024**2
ROOMY = {"default": {"cores": 2, "memory": "4GiB"}}


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    return Timed().put_in(monkeypatch)


@pytest.fixture
def sample(trips_lake: Lake) -> Lake:
    """A table that is there and empty, and objects."""
    trips_lake.upload(TRIPS)
    return trips_lake


@dataclass
class Calibrated:
    """A table that holds a period and was calibrated with its objects: one thread was the fastest."""

    lake: Lake
    found: dict[str, Any]
    said: list[str]
    rows_before: list[int]
    rows_after: list[int]

    def load(self, period: str, **options: Any) -> tuple[dict[str, Any], dict[str, str], str]:
        """Load another period: its result, the reasons of its settings, what it said."""
        self.lake.upload(TRIPS, period)
        with pytest.MonkeyPatch.context() as patch:
            said = Timed().put_in(patch).said
            result = self.lake.load(period=period, **options)
        (recorded,) = (each for each in recorded_loads(self.lake) if each["period"] == period)
        return result, recorded["reasons"], "\n".join(said)


@pytest.fixture(scope="module")
def calibrated(chs3_cluster: Cluster, chs3_s3: Any) -> Iterator[Calibrated]:
    bucket = f"calibrated-{uuid.uuid4().hex[:12]}"
    chs3_s3.client().create_bucket(Bucket=bucket)
    with pytest.MonkeyPatch.context() as patch, lake_on(chs3_cluster, chs3_s3, bucket, patch) as lake:
        lake.create_table()
        lake.upload(TRIPS)
        lake.load()
        before = lake.rows_per_node()
        with pytest.MonkeyPatch.context() as timing:
            timed = Timed().put_in(timing)
            found = calibrate(lake)
        yield Calibrated(lake, found, timed.said, before, lake.rows_per_node())


class TestACalibration:
    @pytest.mark.thorough
    def test_keeps_what_is_faster(self, calibrated: Calibrated) -> None:
        found = calibrated.found
        assert (found["is_better"], found["gain"], found["settings"]) == (True, 2.0, {"max_insert_threads": 1})

    def test_is_stored_on_every_node_with_its_evidence(self, calibrated: Calibrated) -> None:
        lake = calibrated.lake
        of_nodes = lake.on_every_node(f"SELECT evidence FROM {lake.database}.chs3_ledger WHERE event = 'calibrated'")
        assert [[json.loads(text) for (text,) in rows] for rows in of_nodes] == [[calibrated.found]] * 3

    def test_leaves_the_table_and_its_periods_alone(self, calibrated: Calibrated) -> None:
        assert calibrated.rows_after == calibrated.rows_before
        assert calibrated.lake.load()["status"] == "unchanged"

    def test_tells_each_try_and_the_choice(self, calibrated: Calibrated) -> None:
        tries = [line for line in calibrated.said if line.startswith("Trial ")]
        assert len(tries) == calibrated.found["tried"]
        assert tries[1].startswith("Trial 2 of at most 19, 7 of 300 s: 1 insert threads: 1.00 s, ")
        assert "faster than the rule by more than noise (3%), 2.00 × as fast" in calibrated.said[-1]

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_holds_what_departs_from_the_rule_to_a_loads_share_of_memory(self, sample: Lake, timed: Timed) -> None:
        found = calibrate(sample, budget_seconds=SMALLEST_BUDGET)
        limits = [(each["max_insert_threads"], each["max_memory_usage"]) for each in timed.sent]
        all_loads = limits[0][1]
        by_rule = [(2, all_loads)] * 3
        assert limits == [*by_rule, (1, found["memory_bytes"]), (4, found["memory_bytes"])]
        assert found["memory_bytes"] <= all_loads

    @pytest.mark.thorough
    def test_leaves_out_what_runs_out_of_it(self, sample: Lake, timed: Timed) -> None:
        settings = GIVEN | {"max_untracked_memory": 0}
        del settings["max_download_threads"]
        found = calibrate(sample, settings=settings, node_specs={"default": {"cores": 2, "memory": "2MiB"}})
        verdicts = {each["label"]: each["verdict"] for each in found["tries"]}
        assert (verdicts["8 download threads"], found["is_better"]) == ("exceeded its share of memory", False)

    @pytest.mark.thorough
    @pytest.mark.three_nodes
    def test_begins_no_try_for_which_there_is_no_time(self, sample: Lake, timed: Timed) -> None:
        found = calibrate(sample, budget_seconds=SMALLEST_BUDGET)
        assert (found["tried"], found["is_better"]) == (3, False)

    @pytest.mark.thorough
    def test_beside_anothers_insert_gives_each_try_its_part(
        self, sample: Lake, timed: Timed, running_insert: None
    ) -> None:
        calibrate(sample, cluster=sample.cluster.single_node_name, node_specs=ROOMY)
        share_bytes = 2 * 1024**3
        of_readers = {each["input_format_parquet_memory_high_watermark"] for each in timed.sent}
        assert of_readers == {share_bytes // 2 // 8, share_bytes // 3 // 8}, "one at a time, two at a time"
        assert any("this load takes 1/2, as other inserts are running (1)" in each for each in timed.said)

    @pytest.mark.thorough
    def test_is_no_period_to_the_ledger_and_the_page(self, sample: Lake, timed: Timed) -> None:
        calibrate(sample, budget_seconds=SMALLEST_BUDGET)
        given = {"database": sample.database, "table": sample.table, "cluster": sample.cluster.name}
        of_page = sample.on_node(0, records({sample.database: COLUMNS}).text)
        assert (ListLedgerOperator(task_id="ledger", **given).listed(), of_page) == ([], [])

    def test_without_objects_says_so(self, sample: Lake) -> None:
        with pytest.raises(NotReadyError, match="to calibrate with: choose a period"):
            calibrate(sample, period="2020-01")

    @pytest.mark.thorough
    def test_of_too_little_data_says_so(self, sample: Lake) -> None:
        with pytest.raises(AirflowFailException, match="too short to compare settings"):
            calibrate(sample, least_try_seconds=100)

    def test_with_too_small_a_budget_says_how_large_it_must_be(self, sample: Lake, timed: Timed) -> None:
        with pytest.raises(AirflowFailException, match="too short for 14 trials: give 84"):
            calibrate(sample, budget_seconds=SMALLEST_BUDGET - 1)


@pytest.fixture(
    scope="module",
    params=[{"max_memory_usage": PROFILE_BYTES}, {}],
    ids=["a limit that cannot be raised", "a bound alone"],
)
def bounding_cluster(request: pytest.FixtureRequest) -> Iterator[ClickHouseCluster]:
    """A node whose users' profile bounds the memory and the threads of a query."""
    constraints = {"constraints": {"max_memory_usage": {"max": PROFILE_BYTES}, "max_threads": {"max": 3}}}
    with ClickHouseCluster.start(1, user_settings=request.param | constraints, **WITH_NARROW_USER) as cluster:
        yield cluster


class TestAUserWhoseProfileBoundsQueries:
    @pytest.fixture
    def bounded(
        self, bounding_cluster: ClickHouseCluster, chs3_s3: Any, chs3_bucket: str, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Lake]:
        with lake_on(bounding_cluster, chs3_s3, chs3_bucket, monkeypatch) as lake:
            lake.create_table()
            lake.upload(TRIPS)
            yield lake

    @pytest.mark.thorough
    def test_can_calibrate(self, bounded: Lake, timed: Timed) -> None:
        calibrate(bounded, node_specs=ROOMY, budget_seconds=SMALLEST_BUDGET)
        assert {each["max_memory_usage"] for each in timed.sent} == {PROFILE_BYTES}

    @pytest.mark.thorough
    def test_can_load(self, bounded: Lake) -> None:
        # Of so many small files 8 threads would read.
        bounded.upload(Trips(rows_per_period=600, files_per_period=30))
        settings = bounded.load(node_specs=ROOMY)["settings"]
        assert (settings["max_memory_usage"], settings["max_threads"]) == (PROFILE_BYTES, 3)


class TestALoad:
    def test_goes_by_it_and_says_so(self, calibrated: Calibrated) -> None:
        result, reasons, said = calibrated.load("2026-01")
        assert result["settings"]["max_insert_threads"] == 1
        assert reasons["max_insert_threads"] == (
            f"calibrated {calibrated.found['profile']['at']}: 1.0 s against 2.0 s with the rules"
        )
        assert reasons["max_insert_threads"] in said

    @pytest.mark.thorough
    def test_goes_by_the_rule_if_it_is_told_to(self, calibrated: Calibrated) -> None:
        result, _, said = calibrated.load("2026-02", use_calibration=False)
        assert (result["settings"]["max_insert_threads"], "alibrated" in said) == (2, False)

    @pytest.mark.thorough
    def test_takes_its_own_settings_first(self, calibrated: Calibrated) -> None:
        result, reasons, _ = calibrated.load("2026-03", settings={"max_insert_threads": 3})
        assert (result["settings"]["max_insert_threads"], reasons["max_insert_threads"]) == (3, "yours")

    @pytest.mark.thorough
    def test_goes_by_the_rule_where_it_holds_no_more(self, calibrated: Calibrated) -> None:
        smaller = {"default": {"cores": 1, "memory": "3GiB"}}
        _, reasons, said = calibrated.load("2026-04", node_specs=smaller)
        assert "no longer applies (cores: 2, now 1; memory: " in said
        assert not any("calibrated" in each for each in reasons.values())

    @pytest.mark.thorough
    def test_into_a_table_that_was_made_anew_goes_by_the_rule(self, sample: Lake, timed: Timed) -> None:
        calibrate(sample, budget_seconds=SMALLEST_BUDGET)
        sample.on_every_node(f"DROP TABLE {sample.database}.{sample.table} SYNC")
        sample.create_table()
        sample.load()
        assert any(
            "no longer applies (the table was recreated): calibrate the table again." in each for each in timed.said
        )


class TestACalibrationThatIsKilledInMidTry:
    @pytest.fixture
    def killed(self, sample: Lake, monkeypatch: pytest.MonkeyPatch) -> CalibrateLoadOperator:
        operator = calibrate_operator(sample)
        perform = Runner.__dict__["perform"]

        def kill(runner: Runner, step: Step) -> Any:
            outcome = perform.__get__(runner, Runner)(step)
            if isinstance(step, InsertSideBySide):
                raise SystemExit
            return outcome

        with monkeypatch.context() as patch:
            patch.setattr(Runner, "perform", kill)
            with pytest.raises(SystemExit):
                operator.execute({})
        assert len(sample.left_behind()) == len(sample.cluster.nodes)
        return operator

    @pytest.mark.thorough
    def test_leaves_nothing_where_a_person_did_it(self, sample: Lake, killed: CalibrateLoadOperator) -> None:
        killed.on_kill()
        assert sample.left_behind() == []

    def test_leaves_what_the_next_one_drops(self, sample: Lake, killed: CalibrateLoadOperator, timed: Timed) -> None:
        calibrate(sample, budget_seconds=SMALLEST_BUDGET)
        assert sample.left_behind() == []

    @pytest.mark.thorough
    def test_leaves_what_clean_drops(self, sample: Lake, killed: CalibrateLoadOperator) -> None:
        given = {"database": sample.database, "cluster": sample.cluster.name, "older_than_seconds": 0}
        (dropped,) = CleanStagingOperator(task_id="clean", **given).cleaned()
        assert (dropped.was_dropped, sample.left_behind()) == (True, [])

    @pytest.mark.thorough
    def test_does_not_stop_a_load_of_that_period(self, sample: Lake, killed: CalibrateLoadOperator) -> None:
        assert sample.load()["status"] == "published"
        killed.on_kill()


class TestTheShell:
    @pytest.mark.thorough
    def test_prints_the_tries_as_json(self, sample: Lake, timed: Timed, capsys: pytest.CaptureFixture[str]) -> None:
        code = main(["calibrate", *where(sample), "--output=json"])
        found = json.loads(capsys.readouterr().out)
        assert (code, [each["label"] for each in found["tries"]][:2]) == (0, ["the rule", "1 insert threads"])

    @pytest.mark.thorough
    def test_prints_the_table(self, sample: Lake, timed: Timed, capsys: pytest.CaptureFixture[str]) -> None:
        main(["calibrate", *where(sample)])
        assert capsys.readouterr().out == f"{timed.said[-1]}\n"

    def test_needs_a_period(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            main(["calibrate", "--table", "trips", "--key", "trips/{YYYY-MM}/"])
        assert "required: --period" in capsys.readouterr().err


def where(lake: Lake) -> list[str]:
    return [
        *("--database", lake.database, "--cluster", lake.cluster.name, "--table", lake.table),
        *("--bucket", lake.bucket, "--key", "trips/{YYYY-MM}/", "--period", PERIOD),
        *("--budget-seconds", str(SMALLEST_BUDGET)),
    ]
