"""Azure Blob Storage as table functions read it, and what shows of its keys."""

import pytest

from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.exceptions import ConfigurationError
from airflow_provider_chs3.sources.azure.reading import AzureAccess, AzureBlobSource

URL = "https://lakes.blob.core.windows.net"
KEY = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="
TOKEN = "sv=2026-01-01&sp=rl&sig=c2lnbmF0dXJlLW9mLXRoZS10b2tlbg%3D%3D"


def source(bucket="lake", **access):
    return AzureBlobSource(bucket, KeyTemplate("{YYYY-MM}/"), AzureAccess(**access))


def rendered(cluster=None, **access):
    return source(**access).table_function("a/*", file_format="CSV", structure="x Int8", cluster=cluster)


def test_a_key_goes_with_its_account():
    function = rendered("c", account_url=URL, account_name="lakes", account_key=KEY)
    shape = "'CSV', 'auto', 'x Int8'"
    assert function.text == f"azureBlobStorageCluster('c', '{URL}', 'lake', 'a/*', 'lakes', '{KEY}', {shape})"
    assert function.masked == function.text.replace(KEY, "[HIDDEN]")


def test_a_token_is_part_of_a_connection_string_and_hidden_there():
    function = rendered(account_url=URL, account_name="lakes", sas_token=TOKEN)
    string = f"BlobEndpoint={URL};SharedAccessSignature={TOKEN}"
    assert function.text == f"azureBlobStorage('{string}', 'lake', 'a/*', 'CSV', 'auto', 'x Int8')"
    assert function.masked == function.text.replace("c2lnbmF0dXJlLW9mLXRoZS10b2tlbg%3D%3D", "[HIDDEN]")
    assert "c2lnbmF0dXJlLW9mLXRoZS10b2tlbg==" in function.secrets


def test_without_either_servers_use_their_own_identity():
    text = rendered(account_url=URL, account_name="lakes").text
    assert text == f"azureBlobStorage('{URL}', 'lake', 'a/*', 'CSV', 'auto', 'x Int8')"


def test_a_named_collection_has_the_rest():
    text = source("", named_collection="n").table_function("a/*", file_format="CSV", cluster="c").text
    given = "blob_path = 'a/*', format = 'CSV', structure = 'auto', compression_method = 'auto'"
    assert text == f"azureBlobStorageCluster('c', `n`, {given})"


def test_nothing_secret_is_in_a_repr():
    shown = repr(source(account_url=URL, account_name="lakes", account_key=KEY, sas_token=TOKEN))
    assert KEY not in shown
    assert TOKEN not in shown


@pytest.mark.parametrize("name", ["", "ab", "Lake", "lake--1", "-lake", "wasbs://lake", "lake/trips", "l" * 64])
def test_what_is_no_name_of_a_container_is_refused(name):
    with pytest.raises(ConfigurationError, match="is not the name of a container"):
        source(name, account_url=URL)


@pytest.mark.parametrize("name", ["lake", "lake-1", "$root", "l" * 63])
def test_names_of_containers_are_taken(name):
    assert source(name, account_url=URL).url == f"wasbs://{name}"


def test_a_listing_by_clickhouse_does_not_fail_where_there_is_nothing():
    step = next(source("", named_collection="n").list_period(Period.of_month(2026, 1)))
    assert step.sql.text.startswith("SELECT _path, _size, _etag, toUnixTimestamp(_time) FROM azureBlobStorage(`n`")
    assert "azure_throw_on_zero_files_match" not in step.settings
