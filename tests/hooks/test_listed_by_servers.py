"""S3 servers are listed as boto3 lists them, whatever the keys are, and periods in pieces as in one go."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.models import Manifest, PeriodObjects
from airflow_provider_chs3.core.model.period import Grain, Period
from airflow_provider_chs3.core.steps.driving import drive
from airflow_provider_chs3.core.steps.operations import Gather
from airflow_provider_chs3.sources.s3.listing import read_leanly
from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from tests.benchmarks.servers import s3_server
from tests.hooks.listed import by_boto3, listing_of

HOSTILE = [
    "t/a&b", "t/a&amp;b", "t/a&quot;b", "t/<Key>x</Key>", "t/]]>", "t/a>b", "t/a\nb", "t/a\tb", "t/a+b", "t/a b",
    "t/a%20b", "t/a%2Bb", "t/%", "t/ü", "t/u\u0308", "t/🚕", "t/日本", 't/"quoted"', "t/'s", "t/a;b?c=d#e",
    "t/</Contents><Contents>", "t/&#34;", "t/\x7f", "t/~-_.!*()", "t/Size", "t/__/..x", "t/{a,b}", "t/a\\b",
]  # fmt: skip
CONTROL = ["t/a\rb", "t/\x01", "t/\x1f\x0b"]


# VersityGW is compiled once on a machine, which takes minutes.
@pytest.fixture(scope="module", params=["moto", pytest.param("versitygw", marks=pytest.mark.thorough)])
def server(request: pytest.FixtureRequest) -> Any:
    try:
        with s3_server(request.param) as server:
            client = server.endpoint.client()
            client.create_bucket(Bucket="hostile")
            yield server.endpoint
    except RuntimeError as error:
        pytest.skip(str(error))


def with_small_pages(client: Any, size: int = 7) -> Any:
    client.meta.events.register(
        "provide-client-params.s3.ListObjectsV2", lambda params, **_: {**params, "MaxKeys": size}
    )
    return client


def lean_client(server: S3Endpoint) -> Any:
    client = with_small_pages(server.client())
    read_leanly(client)
    return client


def test_hostile_keys_are_listed_as_boto3_lists_them(server: S3Endpoint) -> None:
    client, put = server.client(), set()
    for number, key in enumerate([*HOSTILE, *CONTROL, *(f"t/{number:04}" for number in range(20))]):
        try:
            client.put_object(Bucket="hostile", Key=key, Body=b"x" * (number % 3))
        except Exception:
            assert key in {*HOSTILE, *CONTROL}, key
        else:
            put.add(key)
    found = list(listing_of(lean_client(server)).objects("hostile", "t/"))
    assert found == by_boto3(client, "hostile", "t/") == by_boto3(with_small_pages(server.client()), "hostile", "t/")
    assert len(found) == len({each.key for each in found}) == len(put) > 40
    # VersityGW writes a control character as U+FFFD, which boto3 shows as well.
    assert {each.key for each in found} >= put - set(CONTROL)
    assert all(timedelta(0) <= datetime.now(UTC) - each.last_modified < timedelta(minutes=5) for each in found)


@pytest.mark.parametrize(
    "template", ["m/{YYYY-MM}/*", "m/{YYYY-MM}/", "m/{YYYY}-{M}/*.csv", "m/{YYYY}*-{MM}/*", "**/{YYYY-MM}/*"]
)
def test_periods_that_are_cut_are_those_of_one_listing(server: S3Endpoint, template: str) -> None:
    client, october = server.client(), Period.of_month(2026, 10)
    periods = [october.shifted(-number) for number in range(30)]
    if not by_boto3(client, "hostile", "m/"):
        for key in [f"m/{period}/{name}" for period in periods for name in ("a&b.csv", "ü +.csv", "_x", "c.csv")]:
            client.put_object(Bucket="hostile", Key=key, Body=b"x")
        for key in ["m/0000", "m/2026", "m/2026-10", "m/2026-1/x.csv", "m/2026-13/x.csv", "m/x/2026-10/x.csv"]:
            with suppress(ClientError):  # a folder of VersityGW is no object
                client.put_object(Bucket="hostile", Key=key, Body=b"x")
    source = S3Source(
        bucket="hostile", template=KeyTemplate(template), endpoint_url=server.endpoint_url, credentials=Credentials()
    )
    listing, steps = listing_of(lean_client(server)), []

    def listed(*, is_cut: bool, wanted: list[Period] | Grain = Grain.MONTH) -> dict[Period, PeriodObjects]:
        def perform(step: Any) -> Any:
            if isinstance(step, Gather):
                return [drive(workflow, perform) for workflow in step.workflows]
            steps.append(step)
            return listing.pages(step.bucket, step.prefix, step.narrower if is_cut else None)

        return drive(source.summarize_periods(wanted), perform)

    found = listed(is_cut=True)
    assert found == listed(is_cut=False)
    # {M} means `1`, and so only three periods of a year are there for it.
    assert len(found) >= 8
    assert listed(is_cut=True, wanted=periods[:20]) == {
        period: found.get(period) or PeriodObjects(0, 0, Manifest(()).fingerprint) for period in periods[:20]
    }
