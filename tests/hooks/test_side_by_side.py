"""Prefixes that are listed side by side give what one listing of them all gives, and hold few pages."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.models import ObjectPage, Unit
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import TransientError
from airflow_provider_chs3.sources.s3.listing import S3Listing
from airflow_provider_chs3.sources.side_by_side import AT_ONCE, Page, pages_of

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TEMPLATES = [
    "t/{YYYY-MM}/*.csv", "t/{YYYY-MM-DD}*", "y={YYYY}/m={M}/**", "{YYYY}/{MM}/{DD}/", "{MMM}{YYYY}/", "{YY}{MM}-*",
    "{MMMM_YYYY}.csv", "t/{YYYY}/*-{MM}.csv", "*/{YYYY-MM}.csv",
    "{M}.{YYYY}/?", "{YYYY-MM}/{YYYY-MM}-*", "{DD}.{MM}.{YYYY}",
]  # fmt: skip


class Bucket:
    """A storage with small pages."""

    def __init__(self, keys: list[str], *, page_size: int = 3, seconds: float = 0.0) -> None:
        self.keys = keys
        self.page_size = page_size
        self.seconds = seconds
        self.asked: list[str] = []
        self.now = self.most = 0
        self.lock = threading.Lock()

    def fetch(self, prefix: str, token: str | None) -> Page:
        with self.lock:
            self.asked.append(prefix)
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.seconds)
        found = [key for key in self.keys if key.startswith(prefix)]
        start = int(token or 0)
        page = ObjectPage.of([Unit(f"b/{key}", 1, "", NOW) for key in found[start : start + self.page_size]])
        with self.lock:
            self.now -= 1
        return Page(page, str(start + self.page_size) if start + self.page_size < len(found) else None)

    def listed(self, template: KeyTemplate) -> list[str]:
        prefix = template.keys_of_all.prefix
        return [unit.key for page in pages_of(self.fetch, prefix, template.narrower) for unit in page.objects()]


def key_of(template: str, period: Period, end: str) -> str:
    """A key of the period, or nearly."""
    prefix = KeyTemplate(template).keys_of(period).prefix
    return f"{prefix}{end}"


PERIODS = st.builds(Period.of_month, st.sampled_from([1971, 1999, 2019, 2020, 2026, 2071, 2104]), st.integers(1, 12))
ENDS = st.text("a1-_./\u0660🚕\x00", max_size=4) | st.sampled_from(
    ["/x.csv", "-07.csv", "01", "x/2026-10.csv", "a-10.csv"]
)


@given(st.sampled_from(TEMPLATES), st.lists(st.tuples(PERIODS, ENDS), max_size=40), st.lists(ENDS), st.randoms())
@settings(max_examples=100, deadline=None)
def test_what_belongs_to_a_period_is_found_once_in_whatever_order_it_is_listed(template, dated, others, chance):
    of = KeyTemplate(template)
    keys = sorted({*(key_of(template, period, end) for period, end in dated), *others})
    chance.shuffle(keys)
    listed = Counter(Bucket(keys).listed(of))
    wanted = [key for key in keys if (period := of.period_of(key)) and of.keys_of(period).select(key, 1)]
    assert all(listed[key] == 1 for key in wanted)
    assert all(count == 1 for count in listed.values())


@given(st.sampled_from(TEMPLATES), PERIODS)
@settings(deadline=None)
def test_a_periods_keys_begin_with_one_of_the_pieces_at_every_depth(template, period):
    of, wanted = KeyTemplate(template), KeyTemplate(template).keys_of(period).prefix
    prefix = of.keys_of_all.prefix
    while pieces := of.narrower(prefix):
        (prefix,) = [piece for piece in pieces if wanted.startswith(piece)]
    assert wanted.startswith(prefix)


def trips(periods: int, of_each: int) -> list[str]:
    names = [str(Period.of_month(2010, 1).shifted(number)) for number in range(periods)]
    return [f"t/{name}/{number:03}.csv" for name in names for number in range(of_each)]


TRIPS = KeyTemplate("t/{YYYY-MM}/*.csv")


def test_one_page_is_one_request():
    bucket = Bucket(trips(1, 3))
    assert bucket.listed(TRIPS) == bucket.keys
    assert bucket.asked == ["t/"]


def test_a_period_comes_in_the_storages_order_though_others_come_between():
    bucket = Bucket(trips(30, 20), seconds=0.001)
    listed = bucket.listed(TRIPS)
    assert listed != bucket.keys
    assert sorted(listed) == bucket.keys
    for name in {key[:9] for key in bucket.keys}:
        assert [key for key in listed if key.startswith(name)] == [key for key in bucket.keys if key.startswith(name)]


def test_a_few_requests_run_at_the_same_time():
    bucket = Bucket(trips(30, 20))
    meeting, comers = threading.Barrier(AT_ONCE, timeout=120), itertools.count()

    def fetch(prefix: str, token: str | None) -> Page:
        # None of the first goes on before the last of them has come.
        if prefix != "t/" and next(comers) < AT_ONCE:
            meeting.wait()
        return bucket.fetch(prefix, token)

    assert sum(len(list(page.objects())) for page in pages_of(fetch, "t/", TRIPS.narrower)) == len(bucket.keys)
    assert bucket.most <= AT_ONCE


def test_who_reads_slowly_is_not_sent_more_than_a_few_pages():
    bucket = Bucket(trips(30, 20))
    pages = pages_of(bucket.fetch, "t/", TRIPS.narrower)
    for taken in range(1, 40):
        next(pages)
        time.sleep(0.005)
        # Besides those that were cut up, and those of years that are not there.
        assert len(bucket.asked) <= taken + 2 * AT_ONCE + 14
    pages.close()
    assert sum(each.name.startswith("chs3-listing") for each in threading.enumerate()) <= 2 * AT_ONCE


def test_an_error_of_a_piece_ends_it_all():
    bucket = Bucket(trips(30, 20))

    def fetch(prefix: str, token: str | None) -> Page:
        if prefix.startswith("t/2011") and token:
            raise TransientError("no answer")
        return bucket.fetch(prefix, token)

    with pytest.raises(TransientError, match="no answer"):
        list(pages_of(fetch, "t/", TRIPS.narrower))
    assert len(bucket.asked) < 30 * 7


def test_a_prefix_that_cannot_be_cut_is_listed_as_it_is():
    of = KeyTemplate("*/{YYYY-MM}.csv")
    bucket = Bucket([f"{customer}/2026-10.csv" for customer in range(10)])
    assert bucket.listed(of) == bucket.keys
    assert bucket.asked == [""] * 4


def test_a_directory_bucket_knows_no_prefixes_but_folders(monkeypatch):
    listing, asked = S3Listing("aws_default"), []
    monkeypatch.setattr(S3Listing, "_client", None)
    monkeypatch.setattr(
        "airflow_provider_chs3.sources.s3.listing.pages_of", lambda *given: asked.append(given[-1]) or []
    )
    for bucket in ("lake--use1-az4--x-s3", "lake"):
        assert list(listing.pages(bucket, "t/", TRIPS.narrower)) == []
    assert asked == [None, TRIPS.narrower]
