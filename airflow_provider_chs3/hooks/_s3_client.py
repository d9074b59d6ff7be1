"""Airflow's S3 hook, whose listings take a third of the CPU time. Importing it imports boto3."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook


class QuickS3Hook(S3Hook):
    """Reads the times of objects as the ISO 8601 that S3 sends.

    botocore guesses at their format with dateutil, which was measured to take 50 of the 79 ms that a page of a thousand
    keys costs. AWS' own command line sets a parser of its own the same way.
    """

    def get_session(self, *args: Any, **kwargs: Any) -> Any:
        """A session of boto3, as Airflow makes it."""
        session = super().get_session(*args, **kwargs)
        factory = session._session.get_component("response_parser_factory")
        factory.set_parser_defaults(timestamp_parser=parse_time)
        return session


def parse_time(text: Any) -> datetime:
    """A time of an answer; what is no ISO 8601, such as times in headers, is left to botocore.

    Args:
        text: As S3 sent it.
    """
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        from botocore.utils import parse_timestamp

        return parse_timestamp(text)
