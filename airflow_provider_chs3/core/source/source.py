"""The place that a period comes from: it lists what is there, renders what reads it, and knows what proves that."""

from __future__ import annotations

from airflow_provider_chs3.core.source.listing import SourceListing
from airflow_provider_chs3.core.source.proof import SourceProof
from airflow_provider_chs3.core.source.reading import SourceReading


class Source(SourceListing, SourceReading, SourceProof):
    """The place that periods come from: a storage of objects, or a table of a database, one unit for each period."""
