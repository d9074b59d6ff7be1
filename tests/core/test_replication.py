"""Replicated targets: where staging is in Keeper, who publishes, and what counts once."""

from __future__ import annotations

from dataclasses import astuple, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_chs3.core.files.file_set import Reading
from airflow_provider_chs3.core.ledger.partition_state import Contents, PartitionState
from airflow_provider_chs3.core.ledger.queries import look_up_periods
from airflow_provider_chs3.core.ledger.records import PeriodOnNode, Record, records_of_replicas
from airflow_provider_chs3.core.load.increment_completion import look_at_bases
from airflow_provider_chs3.core.load.insert import verify
from airflow_provider_chs3.core.load.load_request import Policies
from airflow_provider_chs3.core.load.period_load import PeriodLoad, periods_of
from airflow_provider_chs3.core.load.publication import Increment, Publication, Staged, partitions_of
from airflow_provider_chs3.core.load.publish import publish
from airflow_provider_chs3.core.load.retry_policy import RetryState
from airflow_provider_chs3.core.load.staging_tables import Attempt, create_staging
from airflow_provider_chs3.core.model.models import Manifest, Node, TableName
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.sql.quoting import Sql
from airflow_provider_chs3.core.steps.driving import Batch
from airflow_provider_chs3.core.steps.operations import QueryNodes
from airflow_provider_chs3.core.target.node_facts import ReplicatedDatabase, Target
from airflow_provider_chs3.core.target.period_partitions import PeriodPartitions
from airflow_provider_chs3.core.target.replication import find_replicas, follow
from airflow_provider_chs3.core.target.topology import KeeperPlace
from airflow_provider_chs3.exceptions import PreflightError, ReplicasBehindError, TargetChangedError, VerificationError
from tests.core.surroundings import FACTS, ONE, TWO, surroundings, with_target
from tests.support.driving import drive

ONE_B, TWO_B = Node(1, 2, "ch-1b", 9000), Node(2, 2, "ch-2b", 9000)
NODES = (ONE, ONE_B, TWO, TWO_B)
REPLICATED = with_target(engine="ReplicatedMergeTree")
PERIOD = Period.of_month(2026, 10)
ATTEMPT = Attempt(TableName("db", "trips"), (PERIOD,), "ab")
RECORD = Record("published", "a", "f", "d", 1, 4, 10, 1, 1)


def place(node: Node) -> KeeperPlace:
    return KeeperPlace("default", f"/tables/0{node.shard_num}/trips", f"r{node.replica_num}")


AROUND = surroundings(*(replace(REPLICATED, keeper=place(node)) for node in NODES), nodes=NODES)
PLAIN = surroundings()


def replicas(**paths: str):
    """Return the nodes' answers about their replicas."""
    return {
        node: [("default", paths.get(node.host.replace("-", "_"), place(node).path), place(node).replica)]
        for node in NODES
    }


def found(answer):
    context = surroundings(*[REPLICATED] * 4, nodes=NODES)
    granted = {node: [(1,)] for node in NODES}
    return drive(find_replicas(context), granted, answer).result


def statements(step):
    return {node: sql.text for node, sql in step.sql.items()}


class TestReplicas:
    def test_of_a_plain_target_are_not_asked_for(self):
        assert drive(find_replicas(PLAIN)).result is PLAIN

    def test_are_known_by_their_place_in_keeper(self):
        assert found(replicas()).nodes == AROUND.nodes

    def test_that_do_not_share_a_path_are_refused(self):
        with pytest.raises(PreflightError, match=r"shard 1 .* do not replicate .*ch-1b:9000: /elsewhere"):
            found(replicas(ch_1b="/elsewhere"))

    def test_that_are_two_shards_to_the_cluster_are_refused(self):
        one = place(ONE).path
        with pytest.raises(PreflightError, match=r"Shards 1, 2 .* to each other \(/tables/01/trips\)"):
            found(replicas(ch_2=one, ch_2b=one))

    def test_of_a_plain_target_in_a_replicated_database_would_all_replace_it(self):
        facts = replace(FACTS, databases={"db": ReplicatedDatabase(1, 1)})
        with pytest.raises(PreflightError, match=r"'db' has the engine Replicated, .* a plain MergeTree"):
            drive(find_replicas(surroundings(facts)))

    @pytest.mark.parametrize(
        ("shards", "servers", "finding"),
        [(2, 4, "has 2 shards"), (1, 3, "has 3 servers, of which cluster 'c' names 2"), (0, 0, "has further servers")],
    )
    def test_in_a_database_of_more_servers_than_the_load_asks_are_refused(self, shards, servers, finding):
        facts = replace(REPLICATED, databases={"db": ReplicatedDatabase(shards, servers)})
        with pytest.raises(PreflightError, match=finding):
            drive(find_replicas(surroundings(*[facts] * 4, nodes=NODES)))

    def test_of_an_engine_that_servers_do_not_list_are_one_table_by_its_uuid(self):
        """As ClickHouse Cloud may have it; nobody has tried."""
        shared = replace(with_target(engine="SharedMergeTree"), databases={"db": ReplicatedDatabase(0, None)})
        context = surroundings(shared, shared, nodes=(ONE, ONE_B))
        granted = {node: [(1,)] for node in (ONE, ONE_B)}
        assert drive(find_replicas(context), granted, {node: [] for node in (ONE, ONE_B)}).result.shared

    def test_take_privileges_of_their_own(self):
        context = surroundings(*[REPLICATED] * 4, nodes=NODES)
        with pytest.raises(AssertionError, match=r"SYSTEM SYNC REPLICA ON `db`\.`trips`, .* ON `db`\.chs3_\*"):
            drive(find_replicas(context))


class TestStaging:
    def test_is_replicated_at_a_path_of_its_own_beside_the_target(self):
        (step,) = drive(create_staging(AROUND, ATTEMPT), {}).steps
        engines = {node: text.split(" ENGINE = ")[1].split(" PARTITION")[0] for node, text in statements(step).items()}
        assert engines == {
            node: f"ReplicatedMergeTree('{place(node).path}.{ATTEMPT.name}', '{place(node).replica}')" for node in NODES
        }

    def test_is_in_the_keeper_of_the_target(self):
        assert "('second:/p.s', 'r')" in KeeperPlace("second", "/p", "r").engine_beside("s")

    def test_quotes_whatever_the_path_is(self):
        assert KeeperPlace("default", "/it's", "r'").engine_beside("s") == r"ReplicatedMergeTree('/it\'s.s', 'r\'')"


class TestFollowing:
    def test_waits_on_every_node_and_not_for_merges(self):
        (step,) = drive(follow(AROUND, AROUND.target), {}).steps
        assert statements(step) == dict.fromkeys(NODES, "SYSTEM SYNC REPLICA `db`.`trips` LIGHTWEIGHT")

    def test_a_plain_table_is_nothing_to_wait_for(self):
        assert drive(follow(PLAIN, PLAIN.target)).steps == []


class TestPublishers:
    def test_are_one_replica_of_each_shard(self):
        assert AROUND.publishers == (ONE, TWO)

    def test_are_all_nodes_where_a_shard_has_one(self):
        assert PLAIN.publishers == tuple(PLAIN.nodes)


class TestRecords:
    def test_of_a_replica_that_was_set_up_anew_are_those_of_its_shard(self):
        periods = {node: PeriodOnNode(RECORD if node in (ONE, TWO) else None, PartitionState(10)) for node in NODES}
        assert {period.record for period in records_of_replicas(periods).values()} == {RECORD}

    def test_of_a_node_stay_its_own_where_they_are_of_the_same_attempt(self):
        periods = {
            node: PeriodOnNode(replace(RECORD, sequence=number), PartitionState()) for number, node in enumerate(NODES)
        }
        assert records_of_replicas(periods) == periods

    def test_of_a_replica_that_was_down_are_the_newest_of_its_shard(self):
        newer = replace(RECORD, attempt="b", sequence=7)
        periods = {node: PeriodOnNode(newer if node == ONE_B else RECORD, PartitionState()) for node in NODES}
        found = records_of_replicas(periods)
        assert {node: period.record for node, period in found.items()} == {
            ONE: newer,
            ONE_B: newer,
            TWO: RECORD,
            TWO_B: RECORD,
        }
        assert [node for node, period in found.items() if period.is_of_replica] == [ONE]

    def test_of_another_shard_do_not_count(self):
        periods = {node: PeriodOnNode(RECORD if node == ONE else None, PartitionState()) for node in NODES}
        assert records_of_replicas(periods)[TWO].record is None

    def test_of_plain_tables_are_each_nodes_own(self):
        assert [period.record for period in self.looked_up(AROUND)] == [RECORD, RECORD, None, None]
        assert [period.record for period in self.looked_up(surroundings(nodes=NODES))] == [RECORD, None, None, None]

    def looked_up(self, context: Target) -> list[PeriodOnNode]:
        """The period on each node, of which the first one alone has a record."""
        fields = tuple(getattr(RECORD, name) for name in Record.__dataclass_fields__)
        records = {node: [("2026-10", fields, [""], "", "", 0.0)] * (node == ONE) for node in NODES}
        answer = {node: [([(records[node], [], [])], [], [], 0, "u", [])] for node in NODES}
        return [*drive(look_up_periods(context, {PERIOD: PeriodPartitions("202610")}), answer).result[PERIOD].values()]


def of_nodes(*rows: int, block: int = 0):
    return {
        node: PeriodOnNode(
            None,
            PartitionState(count, int(count > 0), count, block, block, block, partition_id="202610"),
            table_uuid=AROUND.table_facts.uuid,
        )
        for node, count in zip(NODES, rows, strict=True)
    }


def staged_of(rows: int, *parts: str) -> Staged:
    return Staged({"202610": Contents(rows, parts)} if rows else {})


STAGED = {node: staged_of(rows, "hash") for node, rows in zip(NODES, (10, 10, 5, 5), strict=True)}
#: The nodes' answers when they are asked again for what is staged.
STILL_STAGED = {node: [("202610", "202610", "202610", each.rows, ["hash"])] for node, each in STAGED.items()}


def published(looks, *answers, staged=STAGED, context=AROUND):
    """The steps of a publication, or its error; `looks` is what the nodes are found to hold."""
    found = iter(looks)

    def look_up_beside(context, owns, beside, *, name, with_records=True):
        ask = QueryNodes(name=name, sql=dict.fromkeys(NODES, Sql(beside)))
        answers = (yield from ask) if beside else {}
        return {PERIOD: next(found)}, {node: row for node, (row,) in answers.items()}

    publication = Publication(
        context=context,
        period=PERIOD,
        period_partitions=PeriodPartitions("202610"),
        attempt=ATTEMPT,
        policies=Policies(),
        before=of_nodes(0, 0, 0, 0),
        staged=staged,
    )
    periods = Batch({PERIOD: publication})
    with pytest.MonkeyPatch.context() as patch:
        for module in ("publish", "published_rows"):
            patch.setattr(f"airflow_provider_chs3.core.load.{module}.look_up_beside", look_up_beside)
        steps = drive(publish(periods), *answers).steps
    periods.unwrap()
    return steps


class TestPublishing:
    def test_one_replica_of_each_shard_publishes_and_the_others_are_waited_for(self):
        looks = [of_nodes(0, 0, 0, 0), of_nodes(10, 10, 5, 5, block=1)]
        answers = ({}, as_before(STILL_STAGED), {}, {}, {}, {})
        *_, intent, replacing, following, recording = published(looks, *answers)
        assert [set(step.sql) for step in (intent, replacing, following, recording)] == [
            set(NODES),
            {ONE, TWO},
            set(NODES),
            set(NODES),
        ]
        assert "REPLACE PARTITION ID '202610'" in statements(replacing)[ONE]

    def test_a_replica_that_did_not_follow_is_not_recorded(self):
        looks = [of_nodes(0, 0, 0, 0), of_nodes(10, 0, 5, 5, block=1)]
        with pytest.raises(VerificationError, match=r"on ch-1b:9000 holds 0 rows .* but 10 were staged"):
            published(looks, {}, as_before(STILL_STAGED), {}, {}, {})

    def test_rows_that_staging_lost_since_they_were_counted_stop_it(self):
        looks = [of_nodes(0, 0, 0, 0)]
        lost = STILL_STAGED | {TWO: []}
        with pytest.raises(VerificationError, match=r"on ch-2:9000 held 5 rows .* and holds 0 now"):
            published(looks, {}, as_before(lost))

    def test_other_parts_than_were_staged_stop_it(self):
        looks = [of_nodes(0, 0, 0, 0)]
        others = {node: staged_of(each.rows, "other") for node, each in STAGED.items()}
        with pytest.raises(VerificationError, match=r"on ch-1:9000 held 10 rows .* and holds 10 now, in other parts"):
            published(looks, {}, as_before(STILL_STAGED), staged=others)

    @pytest.mark.parametrize(("rows", "may_empty"), [(0, 1), (10, 0)])
    def test_only_where_nothing_was_staged_it_may_empty_the_partition(self, rows, may_empty):
        looks = [of_nodes(0, 0, 0, 0), of_nodes(rows, rows, 5, 5, block=1)]
        name = "allow_replace_partition_from_empty_source"
        known = {node: replace(facts, known_settings={name: None}) for node, facts in AROUND.nodes.items()}
        staged = STAGED | {node: staged_of(rows, "hash") for node in (ONE, ONE_B)}
        again = STILL_STAGED | {node: [("202610", "202610", "202610", rows, ["hash"])] for node in (ONE, ONE_B)}
        steps = published(
            looks, {}, as_before(again), {}, {}, {}, {}, staged=staged, context=replace(AROUND, nodes=known)
        )
        (replacing,) = (step for step in steps if step.name == f"Publish {PERIOD}")
        assert statements(replacing)[ONE].endswith(f"SETTINGS {name} = {may_empty}")
        assert statements(replacing)[TWO].endswith(f"SETTINGS {name} = 0")

    def test_the_first_block_of_others_is_noticed_though_replicas_number_from_0(self):
        looks = [of_nodes(3, 3, 0, 0, block=0)]
        with pytest.raises(TargetChangedError, match="somebody wrote to partition 202610"):
            published(looks, {}, as_before(STILL_STAGED))


class TestAdding:
    def test_to_periods_whose_replicas_lag_behind_waits_for_no_merges(self):
        publication = Publication(
            context=AROUND,
            period=PERIOD,
            period_partitions=PeriodPartitions("202610"),
            attempt=ATTEMPT,
            policies=Policies(),
            increment=Increment(base="a", number=1, attaches_first=False, period=Manifest(())),
        )
        periods: Any = Batch({PERIOD: publication})
        bases = drive(look_at_bases(periods), ReplicasBehindError("they lag behind")).result
        assert (bases.items, [*map(str, bases.failed.values())]) == ({}, ["they lag behind"])


class TestVerifying:
    @staticmethod
    def verified(*rows: int, source_rows: int):
        source: Any = SimpleNamespace(list_periods=lambda periods: nothing(), checksum_of=lambda manifest: None)
        manifest: Any = SimpleNamespace(objects=(1,), changes_in=lambda now: "", added_in=lambda now: 0)
        counted = {
            node: partitions_of([("202610", "202610", "202610", each, ["hash"])])
            for node, each in zip(NODES, rows, strict=True)
        }
        plan: Any = SimpleNamespace(reading=Reading((), rows=source_rows))
        load = PeriodLoad(
            context=AROUND,
            period=PERIOD,
            period_partitions=PeriodPartitions("202610"),
            attempt=ATTEMPT,
            policies=Policies(),
            request=cast("Any", None),
            files=cast("Any", SimpleNamespace(manifest=manifest, source=source)),
            retry_state=RetryState(),
            plan=plan,
        )
        periods = periods_of(load)
        drive(verify(load, (), periods, {PERIOD: manifest}, counted))
        return periods.unwrap().staged

    def test_rows_count_once_however_many_replicas_have_them(self):
        assert self.verified(10, 10, 5, 5, source_rows=15) == STAGED

    def test_rows_that_one_replica_lacks_fail(self):
        with pytest.raises(VerificationError, match="on ch-1b:9000 than on ch-1:9000, its replica: 9 and 10"):
            self.verified(10, 9, 5, 5, source_rows=15)

    def test_rows_that_are_missing_on_all_fail(self):
        with pytest.raises(VerificationError, match="hold 15 rows, but 14 were staged"):
            self.verified(9, 9, 5, 5, source_rows=15)


def as_before(staged):
    """The answer of nodes whose target nobody has altered, and of which each has these partitions in staging."""
    target = REPLICATED.target
    keys = ("partition_key", "sorting_key", "primary_key", "sampling_key")
    names = ("engine", "engine_full", *keys, "uuid", "storage_policy")
    columns = [(number, *astuple(column)) for number, column in enumerate(target.columns)]
    row = ([tuple(getattr(target, name) for name in names)], columns, [], [])
    return {node: [(partitions, *row)] for node, partitions in staged.items()}


def nothing():
    return None, {PERIOD: Manifest(())}
    yield
