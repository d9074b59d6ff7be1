"""Assets of tables, as Airflow takes them."""

from __future__ import annotations

import pytest
from airflow.sdk import Asset

from airflow_provider_chs3.assets import create_asset


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("clickhouse://ch-1:9440/taxi/trips", "clickhouse://ch-1:9440/taxi/trips"),
        ("clickhouse://CH-1.example.com/taxi/trips/", "clickhouse://ch-1.example.com:9000/taxi/trips"),
        ("clickhouse://loader:secret@ch-1/taxi/trips", "clickhouse://ch-1:9000/taxi/trips"),
        ("clickhouse://loader@ch-1/taxi/trips", "clickhouse://ch-1:9000/taxi/trips"),
        ("clickhouse://[2001:DB8::1]/taxi/trips", "clickhouse://[2001:db8::1]:9000/taxi/trips"),
    ],
)
@pytest.mark.filterwarnings("ignore:An Asset URI should not contain a password")
def test_a_table_has_one_uri(given: str, stored: str) -> None:
    assert Asset(given).uri == stored


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("clickhouse:///taxi/trips", "has no host: use clickhouse://host:port/database/table"),
        ("clickhouse://ch-1/trips", "does not name a database and a table"),
        ("clickhouse://ch-1", "does not name a database and a table"),
        ("clickhouse://ch-1//trips", "does not name a database and a table"),
        ("clickhouse://ch-1/taxi/trips/2026-10", "does not name a database and a table"),
    ],
)
def test_a_uri_that_names_no_table_is_refused(given: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Asset(given)


def test_a_bucket_has_the_assets_of_the_amazon_provider() -> None:
    assert Asset("s3://my-bucket/trips/").uri == "s3://my-bucket/trips"
    with pytest.raises(ValueError, match="must contain a bucket name"):
        Asset("s3:///trips")


def test_the_factory_names_a_table_whatever_its_name() -> None:
    asset = create_asset(host="CH-1", port=9440, database="taxi", table="a/b c")
    assert asset.uri == "clickhouse://ch-1:9440/taxi/a%2Fb%20c"


def test_airflow_finds_the_factory() -> None:
    from airflow.providers_manager import ProvidersManager

    assert ProvidersManager().asset_factories["clickhouse"] is create_asset


def test_lineage_has_the_same_table_for_the_asset() -> None:
    utils = pytest.importorskip("airflow.providers.openlineage.utils.utils")
    dataset = utils.translate_airflow_asset(create_asset(host="ch-1", database="taxi", table="a/b"), None)
    assert (dataset.namespace, dataset.name) == ("clickhouse://ch-1:9000", "taxi.a/b")
