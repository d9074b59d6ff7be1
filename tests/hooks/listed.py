"""Listings by boto3, and ours over a client of it."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.core.model.models import Unit
from airflow_provider_chs3.sources.s3.listing import S3Listing


def listing_of(client: Any) -> S3Listing:
    listing = S3Listing("aws_default")
    listing._client = client
    return listing


def by_boto3(client: Any, bucket: str, prefix: str) -> list[Unit]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [
        Unit(f"{bucket}/{each['Key']}", each["Size"], each["ETag"].strip('"'), each["LastModified"])
        for page in pages
        for each in page.get("Contents", ())
    ]
