"""Columns of single files: many are asked for at the same time."""

from __future__ import annotations

from airflow_provider_chs3.core.files.describe_files import describe
from airflow_provider_chs3.core.files.file_set import Files
from airflow_provider_chs3.core.files.key_template import KeyTemplate
from airflow_provider_chs3.core.model.formats import format_named
from airflow_provider_chs3.core.model.models import Manifest
from airflow_provider_chs3.core.steps.operations import Gather, Log
from airflow_provider_chs3.sources.s3.reading import Credentials, S3Source
from tests.core.driving import drive

SOURCE = S3Source("bucket", KeyTemplate("{YYYY-MM}/"), "http://s3", Credentials(), base="bucket/")
FILES = Files(SOURCE, Manifest.of([]), format_named("ORC"), "auto", None)


def paths_of(number):
    return [f"bucket/{each:03}.orc" for each in range(number)]


def described(step):
    """A column that has the file's name."""
    return [(step.name.rpartition("/")[2], "Int64")]


def test_every_file_has_its_own_columns_in_the_files_order():
    paths = paths_of(40)
    driven = drive(describe(FILES, paths), None, *[described] * 40)
    assert list(driven.result.items()) == [(path, {path.removeprefix("bucket/"): "Int64"}) for path in paths]


def test_of_many_files_sixteen_are_asked_at_a_time_and_that_is_said():
    workflow = describe(FILES, paths_of(40))
    said, together = next(workflow), workflow.send(None)
    assert isinstance(said, Log)
    assert said.name == "Read the columns of 40 files, 16 at a time"
    assert isinstance(together, Gather)
    assert len(together.workflows) == 16


def test_of_few_files_nothing_is_said():
    assert drive(describe(FILES, paths_of(2)), described, described).result.keys() == set(paths_of(2))


def test_of_no_files_nothing_is_asked():
    assert drive(describe(FILES, [])).result == {}
