"""Tables whose periods have several partitions, such as one for each tenant."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.support.lake import IS_OLDEST, Lake
from tests.support.sets import BOTH, MONTHLY, Case, Tenants
from tests.support.strikes import Strikes, strikes

#: A fixture.
__all__ = ["strikes"]

BOTH_HOURS = ("2026-10-25T00Z", "2026-10-25T01Z")
CASES = (
    Case("(tenant, toYYYYMM(at))"),
    Case("(toYYYYMM(at), tenant)", "LowCardinality(String)"),
    Case("(toYYYYMM(at), tenant)", "UInt32", tenants=("1", "2", "3")),
    Case("(tenant, toYYYYMM(at))", "Enum8('a' = 1, 'b''c' = 2, 'd' = -3)", tenants=("a", "b'c", "d")),
    Case("(tenant, toDate(at))", "Nullable(String)", "{YYYY-MM-DD}", "2026-10-31", "2026-11-01", ("eu", "NULL", "\\N")),
    Case("(toDate(at), tenant, kind)", "String", "{YYYY-MM-DD}", "2026-10-31", "2026-11-01"),
    Case("(toStartOfHour(at), cityHash64(tenant) % 3)", "String", "{YYYY-MM-DD}/{HH}", *BOTH_HOURS),
    Case("(intDiv(tenant, 1000), toYear(at), toMonth(at))", "UInt32", tenants=("1", "1001", "2001")),
    Case(
        "(tenant, toYYYYMM(at))",
        "UUID",
        tenants=tuple(f"{digit * 8}-0000-0000-0000-000000000000" for digit in "123"),
    ),
)


@pytest.fixture(params=CASES, ids=str)
def tenants(lake: Lake, request: pytest.FixtureRequest) -> Tenants:
    return Tenants(lake, request.param)


@pytest.mark.thorough(but=1)
def test_a_period_holds_the_rows_of_its_objects(tenants: Tenants) -> None:
    case, (one, two, three) = tenants.case, tenants.case.tenants
    tenants.put(case.first, "a", (one, 1), (one, 2), (two, 3))
    tenants.put(case.second, "a", (one, 11), (three, 12))
    assert tenants.load(period=case.first) == ["published"]
    assert tenants.load(period=case.second) == ["published"]
    tenants.assert_exact()
    assert tenants.load(periods=[case.first, case.second]) == ["unchanged", "unchanged"]
    other = tenants.partitions()
    tenants.put(case.first, "a", (one, 4), (three, 5))  # the second tenant has vanished, and the third is new
    assert tenants.load(period=case.first) == ["published"]
    tenants.assert_exact()
    untouched = {name: part for name, part in tenants.partitions().items() if other.get(name) == part}
    assert sum(rows for _, rows in untouched.values()) == 2
    assert tenants.load(period=case.first) == ["unchanged"]
    tenants.put(case.first, "b", (two, 6), (one, 7))  # added
    assert tenants.load(period=case.first) == ["published"]
    tenants.assert_exact()
    assert tenants.load(periods=[case.first, case.second]) == ["unchanged", "unchanged"]
    # A row of another period is refused.
    tenants.put_stray(case.first, case.second)
    for periods in ({"period": case.first}, {"periods": [case.first, case.second]}):
        with pytest.raises(AirflowFailException, match="rows of other periods"):
            tenants.load(**periods)
    tenants.assert_exact()


@pytest.fixture
def monthly(lake: Lake) -> Tenants:
    """Two months of two tenants each, published."""
    tenants = Tenants(lake, MONTHLY)
    for number, period in enumerate(BOTH):
        tenants.put(period, "a", *((tenant, 10 * number + each) for each, tenant in enumerate(("eu", "us", "us"))))
    tenants.load(periods=BOTH)
    return tenants


def test_an_increment_replaces_only_the_partitions_of_its_rows_and_periods_share_an_insert(monthly: Tenants) -> None:
    before = monthly.partitions()
    monthly.put("2026-10", "b", ("us", 4), ("asia", 5))
    assert monthly.load(period="2026-10") == ["published"]
    monthly.assert_exact()
    after = monthly.partitions()
    assert {name for name, part in after.items() if before.get(name) != part} == {"('us',202610)", "('asia',202610)"}
    monthly.put("2026-10", "c", ("eu", 6))
    monthly.put("2026-11", "b", ("us", 14), ("asia", 15))
    load = monthly.operator(periods=BOTH)
    assert [each["status"] for each in load.execute({})] == ["published", "published"]
    assert len(load.inserts) == 1
    monthly.assert_exact()
    assert monthly.load(periods=BOTH) == ["unchanged", "unchanged"]


@pytest.mark.thorough
def test_no_statement_of_a_load_has_the_query_id_of_another(monthly: Tenants) -> None:
    # Servers refuse an id that they still list, for milliseconds after the answer: here a second REPLACE would have it.
    monthly.put("2026-10", "a", ("us", 4), ("us", 5))
    assert monthly.load(period="2026-10") == ["published"]
    monthly.assert_exact()
    count = (
        "SELECT countIf(query_id LIKE '%_publish_%'), count() - uniqExact(query_id) FROM system.query_log "
        f"WHERE type = 'QueryStart' AND query LIKE '%{monthly.lake.database}%' AND query_id LIKE 'chs3_%'"
    )
    monthly.lake.on_node(0, "SYSTEM FLUSH LOGS")
    ((publications, doubles),) = monthly.lake.on_node(0, count)
    assert publications >= 3
    assert doubles == 0


@pytest.mark.thorough
def test_a_period_of_more_partitions_than_a_block_of_an_insert_may_have(lake: Lake) -> None:
    tenants = Tenants(lake, Case("(toYYYYMM(at), tenant)", "UInt32"))
    tenants.put("2026-10", "a", *((str(number), number) for number in range(150)))
    assert tenants.load(period="2026-10") == ["published"]
    tenants.put("2026-10", "a", *((str(number), number) for number in range(30, 180)))
    assert tenants.load(period="2026-10") == ["published"]
    tenants.assert_exact()
    assert len(tenants.partitions()) == 150
    assert tenants.load(period="2026-10") == ["unchanged"]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["ReplacingMergeTree", "SummingMergeTree"])
def test_engines_that_merge_rows(lake: Lake, engine: str) -> None:
    tenants = Tenants(lake, MONTHLY, engine=f"{engine}()")
    tenants.put("2026-10", "a", ("eu", 1), ("us", 2))
    tenants.load(period="2026-10")
    tenants.put("2026-10", "b", ("us", 3), ("asia", 4))
    assert tenants.load(period="2026-10") == ["published"]
    tenants.assert_exact()
    tenants.put("2026-10", "a", ("eu", 1), ("eu", 5))  # overwritten
    assert tenants.load(period="2026-10") == ["published"]
    tenants.assert_exact()


@pytest.mark.thorough
def test_rows_of_overwritten_and_deleted_objects_are_removed(lake: Lake) -> None:
    tenants = Tenants(lake, MONTHLY, columns="source String", header="at,tenant,kind,number\n")
    options = {
        "file_format": "CSVWithNames",
        "columns": None,
        "select": {"at": "at", "tenant": "tenant", "kind": "kind", "number": "number", "source": "_path"},
        "object_column": "source",
    }
    for number in range(8):
        tenants.put("2026-10", f"a{number}", ("eu", 10 * number), ("us", 10 * number + 1))
    tenants.put("2026-10", "last", ("asia", 1))
    tenants.load(period="2026-10", **options)
    tenants.put("2026-10", "a1", ("eu", 999))
    tenants.remove("2026-10", "last")
    load = tenants.operator(period="2026-10", **options)
    assert load.execute({})["status"] == "published"
    assert [len(insert.paths) for insert in load.inserts] == [1]
    tenants.assert_exact()
    assert tenants.load(period="2026-10", **options) == ["unchanged"]


@pytest.mark.thorough
def test_rows_of_others_in_a_partition_of_the_period(monthly: Tenants) -> None:
    name = monthly.name
    monthly.lake.on_node(0, f"INSERT INTO {name} VALUES ('2026-10-09 00:00:00', 'asia', 'k', 99)")
    monthly.put("2026-10", "b", ("us", 4))
    with pytest.raises(AirflowFailException, match=r"rows that no load wrote: \('asia',202610\).*replace_unknown"):
        monthly.load(period="2026-10")
    assert monthly.load(period="2026-11") == ["unchanged"]
    assert monthly.load(period="2026-10", replace_unknown=True) == ["published"]
    monthly.assert_exact()
    monthly.lake.on_node(0, f"INSERT INTO {name} VALUES ('2026-10-09 00:00:00', 'us', 'k', 99)")
    monthly.put("2026-10", "c", ("eu", 5))
    with pytest.raises(AirflowFailException, match="the partition was changed since it was published"):
        monthly.load(period="2026-10")
    assert monthly.load(period="2026-10", on_target_changed="reload") == ["published"]
    monthly.assert_exact()


@pytest.mark.thorough
def test_rows_that_others_insert_meanwhile(monthly: Tenants, strikes: Strikes) -> None:
    insert = f"INSERT INTO {monthly.name} VALUES ('2026-10-09 00:00:00', 'asia', 'k', 99)"
    monthly.put("2026-10", "a", ("us", 4), ("us", 5), ("eu", 6))
    strikes.before("Count what is staged once more", lambda: monthly.lake.on_node(0, insert))
    with pytest.raises(AirflowFailException, match=r"somebody wrote to partition \('asia',202610\)"):
        monthly.load(period="2026-10")
    strikes.reset()
    monthly.load(period="2026-10", replace_unknown=True)
    monthly.assert_exact()


@pytest.mark.thorough
def test_staging_that_lost_one_of_two_partitions(monthly: Tenants, strikes: Strikes) -> None:
    monthly.put("2026-10", "a", ("us", 4), ("us", 5), ("eu", 6))

    def drop() -> None:
        (staging,) = set(monthly.lake.staging_tables())
        drop = f"ALTER TABLE {monthly.lake.database}.{staging} DROP PARTITION ('us', 202610)"
        monthly.lake.on_node(0, drop)

    strikes.before("Publish 2026-10", drop)
    emptied, kept = "holds 0 rows of .* right after publishing", "lost its rows on .* right before they were published"
    with pytest.raises(AirflowFailException, match=emptied if IS_OLDEST else kept):
        monthly.load(period="2026-10")
    strikes.reset()
    monthly.load(period="2026-10")
    monthly.assert_exact()


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["Insert", "Count what is staged once more", "Publish 2026-10"])
def test_another_load_that_begins_later_takes_over(monthly: Tenants, strikes: Strikes, step: str) -> None:
    monthly.put("2026-10", "a", ("us", 4), ("eu", 5), ("us", 6))

    def load_another() -> None:
        monthly.put("2026-10", "b", ("asia", 7), ("us", 8))
        monthly.remove("2026-10", "a")
        monthly.load(period="2026-10")

    strikes.before(step, load_another)
    with pytest.raises(AirflowFailException, match="started later and took over"):
        monthly.load(period="2026-10")
    monthly.assert_exact()
    strikes.reset()
    assert monthly.load(periods=BOTH) == ["unchanged", "unchanged"]


@pytest.mark.thorough
def test_lightweight_updates_of_one_partition(lake: Lake) -> None:
    settings = "enable_block_number_column = 1, enable_block_offset_column = 1"
    tenants = Tenants(lake, MONTHLY, settings=settings)
    tenants.put("2026-10", "a", ("eu", 1), ("us", 2))
    tenants.load(period="2026-10")
    with lake.cluster.nodes[0].client() as client:
        update = f"UPDATE {tenants.name} SET kind = 'x' WHERE tenant = 'us'"
        client.execute(update, settings={"enable_lightweight_update": 1})
    with pytest.raises(AirflowFailException, match=r"was changed since it was published: \('us',202610\)"):
        tenants.load(period="2026-10")
    assert tenants.load(period="2026-10", on_target_changed="reload") == ["published"]
    tenants.assert_exact()
    assert lake.on_node(0, f"SELECT DISTINCT kind FROM {tenants.name}") == [("k",)]
    assert tenants.load(period="2026-10") == ["unchanged"]


@pytest.mark.thorough
def test_hours_of_a_local_time_but_for_those_that_clocks_repeat(lake: Lake) -> None:
    case = Case("(tenant, toStartOfHour(at))", template="{YYYY-MM-DD}/{HH}", column="DateTime('America/New_York')")
    tenants = Tenants(lake, case)
    for number, hour in enumerate(range(4, 8)):
        tenants.put(f"2026-11-01T{hour:02}Z", "a", ("eu", 10 * number), ("us", 10 * number + 1))
    assert tenants.load(periods=["2026-11-01T04Z", "2026-11-01T07Z"]) == ["published", "published"]
    for hour in ("2026-11-01T05Z", "2026-11-01T06Z"):
        with pytest.raises(AirflowFailException, match="shares a partition with other hours"):
            tenants.load(period=hour)
    assert [number for *_, number in tenants.found()] == [0, 1, 30, 31]


def test_rows_without_a_time(lake: Lake) -> None:
    tenants = Tenants(lake, Case("(toDate(at), tenant)", "String", "{YYYY-MM-DD}", column="Nullable(DateTime('UTC'))"))
    tenants.put("2026-10-05", "a", ("eu", 1), ("us", 2))
    assert tenants.load(period="2026-10-05") == ["published"]
    tenants.assert_exact()
    lake.put(tenants.key("2026-10-05", "b"), b"\\N,eu,k,3\n")
    with pytest.raises(AirflowFailException, match=r"rows of other periods .*\(NULL,'eu'\): 1"):
        tenants.load(period="2026-10-05")
    tenants.assert_exact()
