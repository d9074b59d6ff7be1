"""Files whose columns have other digits than those of other files, or than the table's."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from tests.integration import valued
from tests.integration.one_column import create, put, values
from tests.support.lake import PERIOD, Lake
from tests.support.refusal import loaded_or_wrongly_refused


def loaded(lake: Lake, column: str, *arrays: pa.Array) -> list[str]:
    create(lake, column)
    for number, array in enumerate(arrays):
        put(lake, number, array)
    assert lake.load(key="unlike/{YYYY-MM}/")["status"] == "published"
    return values(lake)


@pytest.mark.thorough
@pytest.mark.parametrize("digits", [(9, 0, 9), (18, 0, 10), (38, 0, 30), (76, 10, 60)])
def test_decimals_of_other_scales(lake: Lake, digits: tuple[int, int, int]) -> None:
    precision, few, many = digits
    coarse = pa.array([Decimal(10 ** min(8, precision - few) - 1)], _decimal(precision, few))
    fine = pa.array([Decimal("0.5")], _decimal(precision, many))
    assert loaded(lake, "Decimal(40, 20)", coarse, fine) == [str(10 ** min(8, precision - few) - 1), "0.5"]


def _decimal(precision: int, scale: int) -> pa.DataType:
    return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)


@pytest.mark.thorough
def test_arrays_of_decimals_of_other_scales(lake: Lake) -> None:
    coarse = pa.array([[Decimal(99999999)]], pa.list_(pa.decimal128(9, 0)))
    fine = pa.array([[Decimal("0.5")]], pa.list_(pa.decimal128(9, 9)))
    assert loaded(lake, "Array(Decimal(40, 20))", coarse, fine) == ["[99999999]", "[0.5]"]


@pytest.mark.thorough
def test_times_of_other_units(lake: Lake) -> None:
    coarse = pa.array([10_413_791_999_999], pa.timestamp("ms", "UTC"))
    fine = pa.array([1], pa.timestamp("ns", "UTC"))
    found = loaded(lake, "String", coarse, fine)
    assert found == ["2299-12-31 23:59:59.999", "1970-01-01 00:00:00.000000001"]


@pytest.mark.thorough
def test_a_time_at_the_beginning_of_the_calendar_in_another_zone(lake: Lake) -> None:
    assert loaded(lake, "DateTime64(9)", pa.array([-2_208_988_800 * 10**9], pa.timestamp("ns", "Asia/Tokyo"))) == [
        "1900-01-01 00:00:00.000000000"
    ]


TOO_MANY_DIGITS = [
    ("Decimal(76, 76)", pa.array([12], pa.int64())),
    ("Decimal(76, 60)", pa.array([18 * 10**18], pa.uint64())),
    ("Decimal(76, 76)", pa.array([Decimal(12)], pa.decimal256(76, 0))),
    ("Decimal(76, 76)", pa.array([Decimal(12)], pa.decimal128(9, 0))),
    ("Array(Decimal(76, 70))", pa.array([[Decimal("12e5")]], pa.list_(pa.decimal256(76, 3)))),
    ("Decimal(38, 38)", pa.array([Decimal(12)], pa.decimal128(9, 0))),
]


@pytest.mark.thorough
def test_a_number_with_more_digits_than_its_column(lake: Lake) -> None:
    columns = valued.create_each(lake, [column for column, _ in TOO_MANY_DIGITS])
    arrays = [array for _, array in TOO_MANY_DIGITS]
    lake.put(f"{valued.PREFIX}a.parquet", valued.parquet(**dict(zip(columns, arrays, strict=True))))
    matches = dict.fromkeys(columns, r"row 1 of \S+ has '(\[12|12|18)0*\]?'")
    assert loaded_or_wrongly_refused(lake, matches) == {}


EXACT_TEXTS = [
    ("Array(Decimal(52, 52))", "[0.0383158307037838762872578098083582043624211215994093]"),
    ("Array(Decimal(76, 76))", f"[-0.{'0' * 74}29]"),
    ("Tuple(Decimal(40, 39), Int8)", "(1.000000000000000000000000000000000000001,1)"),
    ("Array(Decimal(9, 2))", "[1234567.89,-0.01]"),
]
UNFIT_TEXTS = [("Array(Decimal(9, 2))", "[0.001]"), ("Array(Decimal(76, 75))", "[12]")]


def put_texts(lake: Lake, texts: list[tuple[str, str]]) -> list[str]:
    columns = valued.create_each(lake, [column for column, _ in texts])
    lines = [["ts", *columns], [valued.AT, *(text for _, text in texts)]]
    lake.put(f"{valued.PREFIX}a.tsv", "\n".join("\t".join(line) for line in lines).encode())
    return columns


@pytest.mark.thorough
def test_decimals_in_containers_of_text_keep_all_places(lake: Lake) -> None:
    columns = put_texts(lake, EXACT_TEXTS)
    lake.load()
    found = [valued.values(lake, f"toString({name})") for name in columns]
    assert found == [[text] for _, text in EXACT_TEXTS]


@pytest.mark.thorough
def test_decimals_in_containers_of_text_that_do_not_fit(lake: Lake) -> None:
    columns = put_texts(lake, UNFIT_TEXTS)
    assert loaded_or_wrongly_refused(lake, dict.fromkeys(columns, "row 1 of")) == {}


@pytest.mark.thorough
def test_structs_whose_fields_come_in_another_order(lake: Lake) -> None:
    one = pa.array([{"a": 1, "b": 2}], pa.struct([("a", pa.int32()), ("b", pa.int32())]))
    other = pa.array([{"b": 3, "a": 4}], pa.struct([("b", pa.int64()), ("a", pa.int32())]))
    assert loaded(lake, "Tuple(a Int64, b Int64)", one, other) == ["(1,2)", "(4,3)"]


@pytest.mark.thorough
def test_structs_within_maps_whose_fields_come_in_another_order(lake: Lake) -> None:
    def of(*pairs: tuple[str, int]) -> pa.Array:
        struct = pa.struct([(name, pa.int32()) for name, _ in pairs])
        return pa.array([[("k", dict(pairs))]], pa.map_(pa.string(), struct))

    found = loaded(lake, "Map(String, Tuple(a Int64, b Int64))", of(("a", 1), ("b", 2)), of(("b", 3), ("a", 4)))
    assert found == ["{'k':(1,2)}", "{'k':(4,3)}"]


def _structs(*pairs: tuple[str, int]) -> pa.Array:
    return pa.array([dict(pairs)], pa.struct([(name, pa.int32()) for name, _ in pairs]))


AB, BA = _structs(("a", 1), ("b", 2)), _structs(("b", 20), ("a", 10))
XY, YX = _structs(("x", 1), ("y", 2)), _structs(("y", 20), ("x", 10))
ORDERS = r"'v' is .*the fields of its structs are (`\w`), (`\w`) in \S+/[01].\w+, but \2, \1 in \S+/[01].\w+\."


def _listed(array: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays([0, 1], array)


def _mapped(array: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays([0, 1], pa.array(["k"]), array)


class TestTuplesWithoutNames:
    @pytest.mark.thorough(but=1)
    @pytest.mark.parametrize("ending", ["parquet", "arrow", "orc"])
    def test_refuse_structs_whose_fields_come_in_another_order(self, lake: Lake, ending: str) -> None:
        create(lake, "Tuple(Int32, Int32)")
        put(lake, 0, AB, ending=ending)
        put(lake, 1, BA, ending=ending)
        with pytest.raises(AirflowFailException, match=ORDERS):
            lake.load(key="unlike/{YYYY-MM}/")
        assert lake.rows_per_node() == [0]

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("column", "arrays"),
        [
            ("Array(Tuple(Int32, Int32))", (_listed(AB), _listed(BA))),
            ("Map(String, Tuple(Int32, Int32))", (_mapped(AB), _mapped(BA))),
            ("Tuple(t Tuple(Int32, Int32))", [pa.StructArray.from_arrays([each], ["t"]) for each in (AB, BA)]),
            ("Tuple(Tuple(Int32, Int32))", [pa.StructArray.from_arrays([each], ["t"]) for each in (AB, BA)]),
            ("Point", (AB, BA)),
            ("Polygon", (_listed(_listed(AB)), _listed(_listed(BA)))),
        ],
    )
    def test_refuse_them_inside_of_containers_too(self, lake: Lake, column: str, arrays: tuple[pa.Array, ...]) -> None:
        with pytest.raises(AirflowFailException, match=ORDERS):
            loaded(lake, column, *arrays)

    @pytest.mark.thorough
    def test_refuse_them_in_select_until_it_names_the_fields(self, lake: Lake) -> None:
        create(lake, "Tuple(Int32, Int32)")
        put(lake, 0, AB)
        put(lake, 1, BA)
        with pytest.raises(AirflowFailException, match=ORDERS):
            lake.load(key="unlike/{YYYY-MM}/", select={"id": "id", "ts": "ts", "v": "v"})
        lake.load(key="unlike/{YYYY-MM}/", select={"id": "id", "ts": "ts", "v": "(v.a, v.b)"})
        assert values(lake) == ["(1,2)", "(10,20)"]

    @pytest.mark.thorough
    def test_take_structs_of_one_order_by_position(self, lake: Lake) -> None:
        assert loaded(lake, "Tuple(Int32, Int64)", BA, BA) == ["(20,10)", "(20,10)"]

    @pytest.mark.thorough
    def test_take_structs_of_other_fields_by_position(self, lake: Lake) -> None:
        assert loaded(lake, "Tuple(Int32, Int64)", AB, YX) == ["(1,2)", "(20,10)"]


POINTS: list[tuple[str, Callable[[pa.Array], pa.Array], str]] = [
    ("Point", lambda array: array, "{}"),
    ("Array(Point)", _listed, "[{}]"),
    ("Ring", _listed, "[{}]"),
    ("LineString", _listed, "[{}]"),
    ("Polygon", lambda array: _listed(_listed(array)), "[[{}]]"),
    ("Map(String, Point)", _mapped, "{{'k':{}}}"),
    ("Tuple(Point)", lambda array: pa.StructArray.from_arrays([array], ["p"]), "({})"),
]


@pytest.mark.thorough
def test_points_have_their_coordinates_by_name(lake: Lake) -> None:
    columns = valued.create_each(lake, ["UInt8", *(column for column, _, _ in POINTS)])
    for number, order in enumerate((XY, YX)):
        arrays = [pa.array([number]), *(within(order) for _, within, _ in POINTS)]
        lake.put(f"{valued.PREFIX}{number}.parquet", valued.parquet(**dict(zip(columns, arrays, strict=True))))
    lake.load()
    shown = ", ".join(f"toString({name})" for name in columns)
    wanted = [["0"], ["1"]]
    for row, point in zip(wanted, ("(1,2)", "(10,20)"), strict=True):
        row.extend(text.format(point) for _, _, text in POINTS)
    assert [list(row) for row in valued.values(lake, f"({shown})")] == wanted


@pytest.mark.thorough
def test_a_point_has_other_coordinates_by_position(lake: Lake) -> None:
    assert loaded(lake, "Point", BA) == ["(20,10)"]


@pytest.mark.thorough
def test_an_element_that_one_file_lacks_is_an_error_that_names_the_file(lake: Lake) -> None:
    create(lake, "Tuple(a Int32, b Nullable(Int32))")
    fields = [("a", pa.int32()), ("b", pa.int32())]
    # Files of Arrow are looked at in the order of their names.
    put(lake, 0, pa.array([{"a": 1, "b": 2}], pa.struct(fields)), ending="arrow")
    put(lake, 1, pa.array([{"a": 1}], pa.struct(fields[:1])), ending="arrow")
    with pytest.raises(AirflowFailException, match=r"Column 'v' in \S+/1.arrow lacks the element `b` of Tuple"):
        lake.load(key="unlike/{YYYY-MM}/")


@pytest.mark.thorough
def test_an_empty_file_of_longer_texts(lake: Lake) -> None:
    none, one = pa.array([], pa.binary(4)), pa.array([b"abc"], pa.binary(3))
    assert loaded(lake, "FixedString(3)", none, one) == ["abc"]


@pytest.mark.thorough
def test_an_empty_file_of_what_cannot_be_cast(lake: Lake) -> None:
    with pytest.raises(AirflowFailException, match=r"Column 'v' cannot be filled from \S+/0.parquet"):
        loaded(lake, "UUID", pa.array([], pa.float64()))


@pytest.mark.thorough
def test_the_text_of_a_number_does_not_depend_on_other_files(lake: Lake) -> None:
    narrow, wide = (pa.array([0.1], of) for of in (pa.float32(), pa.float64()))
    assert loaded(lake, "String", narrow, wide) == ["0.1", "0.1"]


def test_bytes_that_may_be_uuids_are_refused_inside_of_structs_too(lake: Lake) -> None:
    kind = pa.struct([("b", pa.list_(pa.struct([("u", pa.binary(16))]))), ("a", pa.int32())])
    value = pa.array([{"a": 1, "b": [{"u": bytes(range(16))}]}], kind)
    with pytest.raises(AirflowFailException, match="has bytes that are not declared as UUIDs"):
        loaded(lake, "Tuple(a Int32, b Array(Tuple(u UUID)))", value)


def test_wide_integers_are_bytes_inside_of_lists_and_structs_too(lake: Lake) -> None:
    def raw(number: int) -> bytes:
        return number.to_bytes(16, "little", signed=True)

    wide = pa.binary(16)
    kind = pa.struct([("n", pa.list_(wide)), ("m", pa.map_(wide, wide)), ("k", pa.int32())])
    value = {"n": [raw(49), raw(-1), raw(int.from_bytes(b"1234567890123456"))], "m": [(raw(50), raw(51))], "k": 1}
    found = loaded(lake, "Tuple(k Int8, m Map(Int128, UInt128), n Array(Int128))", pa.array([value], kind))
    assert found == [f"(1,{{50:51}},[49,-1,{int.from_bytes(b'1234567890123456')}])"]


@pytest.mark.thorough
@pytest.mark.newer("Time64 without a setting")
def test_times_of_day_in_lists_of_text_are_as_written(lake: Lake) -> None:
    create(lake, "Array(Nullable(Time64(6)))")
    lines = (f"1\t{PERIOD}-02 00:00:00\t['01:02:03.000004',NULL,'-00:00:01']\n", f"2\t{PERIOD}-02 00:00:00\t[]\n")
    lake.put(f"unlike/{PERIOD}/0.tsv", "".join(lines).encode())
    assert lake.load(key="unlike/{YYYY-MM}/", file_format="TabSeparated")["status"] == "published"
    assert values(lake) == ["['01:02:03.000004',NULL,'-00:00:01.000000']", "[]"]


@pytest.mark.thorough
@pytest.mark.newer("Time64 without a setting")
def test_a_number_in_a_list_of_times_of_day_is_refused(lake: Lake) -> None:
    create(lake, "Array(Nullable(Time64(6)))")
    lake.put(f"unlike/{PERIOD}/0.tsv", f"1\t{PERIOD}-02 00:00:00\t[300]\n".encode())
    with pytest.raises(AirflowFailException, match="row 1"):
        lake.load(key="unlike/{YYYY-MM}/", file_format="TabSeparated")
    assert lake.rows_per_node() == [0]
