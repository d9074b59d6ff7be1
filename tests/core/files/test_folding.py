"""Pages are folded into the same periods, and into the same fingerprints, as if each key were looked at alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_chs3.core.files.folding import Folding
from airflow_provider_chs3.core.files.key_template import END, KeyTemplate
from airflow_provider_chs3.core.model.models import Manifest, ObjectPage, Unit
from airflow_provider_chs3.core.model.period import Period

NOW = datetime(2026, 11, 1, tzinfo=UTC)
OCTOBER = Period.of_month(2026, 10)
TEMPLATES = [
    "t/{YYYY-MM}/*.csv", "t/{YYYY-MM-DD}*", "y={YYYY}/m={M}/**", "{YYYY}/{MM}/{DD}/", "{MMM}{YYYY}/", "{YY}{MM}-*",
    "{MMMM_YYYY}.csv", "t/{YYYY}/*-{MM}.csv", "*/{YYYY-MM}.csv", "_t/{YYYY-MM}/*", "t.{YYYY}/_{M}_*", "{YYYY}/{M}.*",
    "{M}.{YYYY}/?", "{YYYY-MM}/{YYYY-MM}-*", "{YYYY}/*{YYYY-MM}*", "{DD}.{MM}.{YYYY}", "{YYYY}/{MMM}/*{M}-*",
    "(a+)/{YYYY.MM}/",
]  # fmt: skip
PERIODS = st.builds(
    Period.of_month, st.sampled_from([1971, 2019, 2026, 2071, 2104]), st.sampled_from([1, 2, 10, 11, 12])
)
ENDS = st.sampled_from(
    ["a.csv", "b.csv", "c'\".csv", "\\ü.csv", "x/2026-10.csv", "2026-10.csv", "a-10.csv", "2026-11-a", "1-x", "01", "/",
     "_SUCCESS", ".csv", "_x/a.csv", "x/.a.csv", "x/_/y.csv", "a\nb.csv", "\x00.csv", "\u0660\u0661.csv", "x/", ""]
) | st.text("a1-_./\u0661🚕\x00", max_size=4)  # fmt: skip
OTHERS = ["\u0662\u0660\u0662\u0666-10/a.csv", "t/2026-13/a.csv", "b/t/2026-10/a.csv", "t"]
SIZES = st.sampled_from([1, 2, 2, 2, 0])


@st.composite
def buckets(draw: st.DrawFn) -> tuple[KeyTemplate, list[Unit]]:
    template = KeyTemplate(draw(st.sampled_from(TEMPLATES)))
    dated = draw(st.lists(st.tuples(PERIODS, st.sampled_from(["", "07", "a/"]), ENDS), max_size=40))
    keys = {f"{template.keys_of(period).prefix}{between}{end}" for period, between, end in dated}
    keys |= set(draw(st.lists(st.sampled_from(OTHERS), max_size=2)))
    paths = draw(st.permutations(sorted(keys))) if draw(st.booleans()) else sorted(keys)
    return template, [Unit(f"b/{key}", draw(SIZES), "e'", NOW) for key in paths]


def folded(template: KeyTemplate, objects: list[Unit], *, page_size: int, wanted: set[Period] | None) -> Folding:
    folding = Folding(template, "b/", wanted)
    for first in range(0, len(objects), page_size):
        folding.add(ObjectPage.of(objects[first : first + page_size]))
    return folding


@given(buckets(), st.sampled_from([1, 3, 50]), st.none() | st.sets(PERIODS, max_size=3))
@settings(max_examples=300, deadline=None)
def test_a_page_is_folded_as_its_keys_one_by_one(bucket, page_size, wanted):
    template, objects = bucket
    expected: dict[Period, list[Unit]] = {}
    for each in objects:
        period = template.period_of(each.key)
        is_wanted = period is not None and (wanted is None or period in wanted)
        if is_wanted and template.keys_of(period).select(each.key, each.size_bytes):
            expected.setdefault(period, []).append(each)
    found = folded(template, objects, page_size=page_size, wanted=wanted).periods
    assert {period: (each.count, each.size_bytes) for period, each in found.items()} == {
        period: (len(some), sum(each.size_bytes for each in some)) for period, some in expected.items()
    }
    for period, each in found.items():
        manifest = Manifest.of(expected[period])
        assert each.is_sorted == (list(manifest.objects) == expected[period])
        assert each.summary.fingerprint == manifest.fingerprint or not each.is_sorted


def page_of(periods: int, of_each: int) -> str:
    return "".join(
        f"b/t/{OCTOBER.shifted(at)}/{number:03}.csv{END}" for at in range(periods) for number in range(of_each)
    )


@pytest.mark.parametrize("template", ["t/{YYYY-MM}/*.csv", "t/{YYYY}-{MM}/**", "t/{YYYY}-{M}/"])
def test_a_run_is_as_long_as_its_period(template):
    text = page_of(3, 100)
    run = KeyTemplate(template).runs("b/").match(text)
    assert text.count(END, 0, run.end()) == 100
    assert KeyTemplate(template).period_in(run) == OCTOBER


def test_a_run_is_one_key_where_its_beginning_does_not_tell_the_period():
    run = KeyTemplate("t/*{YYYY-MM}/*.csv").runs("b/").match(page_of(1, 3))
    assert run[0].count(END) == 1


def test_a_key_twice_is_not_in_order():
    twice = [Unit("b/t/2026-10/a.csv", 1, "e", NOW)] * 2
    for page_size in (1, 2):
        folding = folded(KeyTemplate("t/{YYYY-MM}/*.csv"), twice, page_size=page_size, wanted=None)
        assert not folding.periods[OCTOBER].is_sorted
