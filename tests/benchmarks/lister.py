"""A worker that lists periods, and plain boto3 that lists the same: run as `Forked` does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BUCKET = "made-up"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The objects to list."""

    key: str
    prefix: str


@dataclass(frozen=True, kw_only=True)
class ListingResult:
    """The cost, with modules and client there already."""

    objects: int
    seconds: float
    cpu_seconds: float


def list_as_we_do(given: Listing) -> ListingResult:
    """List all periods, and fold each into its fingerprint."""
    from airflow_provider_chs3.core.files.key_template import KeyTemplate
    from airflow_provider_chs3.core.model.period import Grain
    from airflow_provider_chs3.core.steps.driving import drive
    from airflow_provider_chs3.sources.s3.listing import S3Listing
    from airflow_provider_chs3.sources.s3.reading import S3Source

    listing = S3Listing("aws_default")
    credentials, endpoint_url = listing.access()
    source = S3Source(
        bucket=BUCKET, template=KeyTemplate(given.key), endpoint_url=endpoint_url, credentials=credentials
    )

    def count() -> int:
        found = drive(
            source.summarize_periods(Grain.MONTH), lambda step: listing.pages(step.bucket, step.prefix, step.narrower)
        )
        return sum(each.count for each in found.values())

    list(listing.pages(BUCKET, "nothing"))
    return _measured(count)


def list_as_boto3_does(given: Listing) -> ListingResult:
    """List everything with a paginator of a client as boto3 makes it, and only count."""
    import boto3
    from airflow.providers.amazon.aws.hooks.s3 import S3Hook

    keys = S3Hook("aws_default").get_credentials()
    client: Any = boto3.client(
        "s3",
        endpoint_url=S3Hook("aws_default").conn_config.endpoint_url,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        region_name="us-east-1",
    )
    pages = client.get_paginator("list_objects_v2")
    list(pages.paginate(Bucket=BUCKET, Prefix="nothing"))
    return _measured(
        lambda: sum(len(page.get("Contents", ())) for page in pages.paginate(Bucket=BUCKET, Prefix=given.prefix))
    )


def _measured(count: Callable[[], int]) -> ListingResult:
    cpu_seconds, start = time.process_time(), time.monotonic()
    objects = count()
    return ListingResult(
        objects=objects, seconds=time.monotonic() - start, cpu_seconds=time.process_time() - cpu_seconds
    )
