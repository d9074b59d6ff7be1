"""Which changes of a table make a period another one, and in which words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_provider_chs3.core.ledger.recording import (
    as_text,
    difference,
    loaded_of,
    settings_of_reading,
    structure_of,
)
from airflow_provider_chs3.core.target.table_facts import Column
from tests.core.surroundings import TARGET, surroundings, with_target

AT = Column("at", "DateTime", in_partition_key=True)
KIND = Column("kind", "Enum8('a' = 1)")
IN_UTC = {"session_timezone": "UTC"}
COUNT = Column("count", "UInt64", "ALIAS", "n + 1")


def now(
    *columns: Column,
    time_zone: str = "UTC",
    sharding_key: str | None = None,
    settings=None,
    adds_columns: bool = False,
    **changes,
):
    facts = replace(with_target(columns=columns or (AT, KIND, COUNT), **changes), time_zone=time_zone)
    context = replace(surroundings(facts, facts, facts), sharding_key=sharding_key)
    return structure_of(
        context,
        distribution="sharding_key" if sharding_key else "where_read",
        settings=settings or {},
        shard_num=2,
        adds_columns=adds_columns,
    )


def recorded(structure=None, *, in_files=("at", "kind", "extra"), every_column: bool = True):
    loaded = loaded_of(["at", "kind"], in_files, every_column=every_column)
    return json.loads(as_text(structure or now(), loaded))


def difference_of(before, after, shard_num: int = 2) -> str:
    return difference(before, after, shard_num=shard_num)


def test_the_same_table_is_no_difference():
    assert difference_of(recorded(), now()) == ""


class TestColumns:
    def test_one_that_the_files_have(self):
        after = now(AT, KIND, COUNT, Column("extra", "UInt8"))
        assert (
            difference_of(recorded(), after) == "column 'extra' was added to the table, and the period's files have it"
        )

    def test_one_that_they_do_not_have(self):
        assert difference_of(recorded(), now(AT, KIND, COUNT, Column("other", "UInt8", "DEFAULT", "7"))) == ""

    def test_one_that_they_may_have(self):
        after = now(AT, KIND, COUNT, Column("other", "UInt8"))
        assert difference_of(recorded(in_files=None), after) == "column 'other' was added to the table"

    def test_one_that_is_not_loaded(self):
        after = now(AT, KIND, COUNT, Column("extra", "UInt8", "MATERIALIZED", "7"))
        assert difference_of(recorded(), after) == ""

    def test_one_that_was_not_asked_for(self):
        assert difference_of(recorded(every_column=False), now(AT, KIND, COUNT, Column("extra", "UInt8"))) == ""

    @pytest.mark.parametrize(
        ("in_files", "said"),
        [
            (
                ("at", "kind", "extra"),
                "its files have 'extra', which policies={'on_new_columns': 'add'} adds to the table",
            ),
            (
                None,
                "its files have not been checked for columns that the table lacks, which policies=",
            ),
            (("at", "kind"), ""),
        ],
    )
    def test_those_that_are_to_be_added_from_now_on(self, in_files, said):
        wanted = now(adds_columns=True)
        assert difference_of(recorded(in_files=in_files), wanted).startswith(said)
        assert bool(difference_of(recorded(in_files=in_files), wanted)) is bool(said)
        # Loaded so, or adopted, it stays as it is: whatever the files have, nothing more can be added.
        assert difference_of(recorded(wanted, in_files=in_files), wanted) == ""
        assert difference_of(recorded(in_files=in_files, every_column=False), wanted) == ""

    @pytest.mark.parametrize(
        "changed", [replace(KIND, type="Enum8('a' = 1, 'b' = 2)"), replace(COUNT, default_expression="n + 2")]
    )
    def test_one_that_has_the_same_values_as_before(self, changed):
        columns = tuple(changed if each.name == changed.name else each for each in (AT, KIND, COUNT))
        assert difference_of(recorded(), now(*columns)) == ""

    def test_one_of_another_time_zone(self):
        after = now(replace(AT, type="DateTime('Asia/Tokyo')"), KIND, COUNT)
        assert difference_of(recorded(), after) == (
            "column 'at' of the table was DateTime and is DateTime('Asia/Tokyo')"
        )

    def test_one_with_another_default(self):
        after = now(AT, replace(KIND, default_kind="DEFAULT", default_expression="'a'"), COUNT)
        assert difference_of(recorded(), after).endswith("is Enum8('a' = 1) DEFAULT 'a'")


class TestTimeZones:
    ZONED = replace(AT, type="DateTime('UTC')")

    def test_another_one_of_all_nodes_counts_whatever_the_columns(self):
        assert difference_of(recorded(now(self.ZONED)), now(self.ZONED, time_zone="Asia/Tokyo")) == (
            "times without a zone were read in 'UTC', and are now read in 'Asia/Tokyo'"
        )

    def test_that_of_the_nodes_counts_in_a_key_without_one_whatever_is_given(self):
        after = now(time_zone="Asia/Tokyo", settings=IN_UTC)
        assert difference_of(recorded(), after) == "the servers' time zone was 'UTC' and is 'Asia/Tokyo'"
        assert difference_of(recorded(now(self.ZONED)), now(self.ZONED, time_zone="Asia/Tokyo", settings=IN_UTC)) == ""

    def test_who_names_it_is_nothing(self):
        assert difference_of(recorded(), now(settings=IN_UTC)) == ""

    def test_where_the_settings_are_not_known_it_is_not_compared(self):
        context = replace(with_target(columns=(self.ZONED,)), time_zone="Asia/Tokyo")
        after = structure_of(surroundings(context), distribution="where_read", settings=None)
        assert difference_of(recorded(now(self.ZONED)), after) == ""


@pytest.mark.parametrize("changes", [{"indices": (("i", "set(10)", "kind", 1),)}, {"sorting_key": "id, at, kind"}])
def test_indices_and_the_order_change_no_row(changes):
    assert difference_of(recorded(), now(**changes)) == ""


class TestSettings:
    NAME = "input_format_csv_skip_first_lines"

    def test_one_that_changed(self):
        before, after = now(settings={self.NAME: 1}), now(settings={self.NAME: 2})
        assert difference_of(recorded(before), after) == f"setting {self.NAME} was '1' and is '2'"

    def test_one_that_is_not_given_any_more(self):
        assert difference_of(recorded(now(settings={self.NAME: 1})), now()).endswith("was '1' and is not set")

    def test_where_they_are_not_known_they_are_not_compared(self):
        assert difference_of(recorded(now(settings={self.NAME: 1})), {**now(), "settings": None}) == ""

    def test_only_those_of_reading_count(self):
        given = {self.NAME: 1, "max_threads": 2, "input_format_parquet_max_block_size": 3, "format_csv_delimiter": ";"}
        assert settings_of_reading(given) == {"format_csv_delimiter": ";", self.NAME: "1"}

    @pytest.mark.parametrize("name", ["splitby_max_substrings_includes_remaining_string", "transform_null_in"])
    def test_so_do_those_of_what_select_makes(self, name):
        assert difference_of(recorded(), now(settings={name: 1})) == f"setting {name} was not set and is '1'"


class TestSharding:
    def test_another_key(self):
        after = now(sharding_key="rand()")
        assert difference_of(recorded(now(sharding_key="id")), after) == "the sharding key was id and is rand()"

    def test_another_order_of_shards(self):
        by_key = now(sharding_key="id")
        assert difference_of(recorded(by_key), by_key, 3) == "shard 2 of 3 is shard 3 of 3 now"

    def test_without_a_key_the_order_is_nothing(self):
        assert difference_of(recorded(), now(), 3) == ""


def test_the_target_of_tests_has_a_key_without_a_time_zone():
    assert now(*TARGET.columns)["time_zone"] == "UTC"
