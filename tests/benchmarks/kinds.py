"""Periods of files of several kinds, and how far away they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from airflow_provider_chs3.testbed.s3 import S3Endpoint
from airflow_provider_chs3.testbed.trips import Trips
from tests.benchmarks.lake import BUCKET
from tests.benchmarks.servers import Distance

PERIOD = "2026-01"
#: What Amazon says of S3 within a region: 100 to 200 ms to the first byte, 85 to 90 MB/s for each request.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html
AMAZON = Distance(first_byte_ms=100, connection_mb_per_second=85)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Files of one kind."""

    name: str
    file_format: Any
    files: int
    rows: int

    @property
    def key(self) -> str:
        return f"{self.name.replace(' ', '-')}/{{YYYY-MM}}/"

    @property
    def prefix(self) -> str:
        return self.key.replace("{YYYY-MM}", PERIOD)

    def upload(self, s3: S3Endpoint, rows: int) -> None:
        """Make the files."""
        client = s3.client()

        def upload(number: int) -> None:
            trips = Trips(seed=number, rows_per_period=max(1, rows // self.files), files_per_period=1)
            trips.upload(
                client, PERIOD, bucket=BUCKET, prefix=f"{self.prefix}{number:03}-", file_format=self.file_format
            )

        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(upload, range(self.files)))
