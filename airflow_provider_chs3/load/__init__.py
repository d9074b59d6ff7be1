"""A load as a value: where its objects are, the table that takes them, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_chs3.core.arguments import load_arguments
from airflow_provider_chs3.core.arguments.declaration import (
    CONFIGURED,
    Group,
    check_once,
    declared,
    field_of,
    is_of_a_run,
)
from airflow_provider_chs3.exceptions import ConfigurationError

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_provider_chs3.core.model.freshness import FreshBy
    from airflow_provider_chs3.sources.storage import Storage


@dataclass(frozen=True, kw_only=True)
class Load(Group):
    """A load: its objects, its table, and how it loads them. Tasks, the shell and `Table` take it as `load`.

    Its fields are the arguments of `S3ToClickHouseOperator` by the same names. A text may be a template of Jinja where
    a task takes the load, which renders it. `dataclasses.replace` makes a load that differs from another one.

    Raises:
        ConfigurationError: If a value is wrong, or it is not clear where the objects are.
    """

    name: str | None = field_of(load_arguments.NAME)
    table: str = field_of(load_arguments.TABLE)
    key: str | None = field_of(load_arguments.KEY)
    bucket: str | None = field_of(load_arguments.BUCKET)
    aws_conn_id: str | None = field_of(load_arguments.AWS_CONN_ID)
    objects: Storage | None = field_of(load_arguments.OBJECTS)  # noqa: RUF009 - a field, whatever its type
    database: str | None = field_of(load_arguments.DATABASE)
    cluster: str | None = field_of(load_arguments.CLUSTER)
    staging_database: str | None = field_of(load_arguments.STAGING_DATABASE)
    clickhouse_conn_id: str = field_of(load_arguments.CLICKHOUSE_CONN_ID)
    timezone: str | None = field_of(load_arguments.TIMEZONE)
    columns: Sequence[str] | None = field_of(load_arguments.COLUMNS)
    select: Mapping[str, str] | str | None = field_of(load_arguments.SELECT)
    csv: Mapping[str, Any] | str | None = field_of(load_arguments.CSV)
    files: Mapping[str, Any] | str | None = field_of(load_arguments.FILES)
    casts: Mapping[str, Any] | str | None = field_of(load_arguments.CASTS)
    distribution: str = field_of(load_arguments.DISTRIBUTION)
    settings: Mapping[str, str | int | float | bool] | str | None = field_of(load_arguments.SETTINGS)
    create_table: str = field_of(load_arguments.CREATE_TABLE)
    views: str = field_of(load_arguments.VIEWS)
    fresh_by: str | None = field_of(load_arguments.FRESH_BY)
    policies: Mapping[str, Any] | str | None = field_of(load_arguments.POLICIES)
    checks: Mapping[str, Any] | str | None = field_of(load_arguments.CHECKS)
    increments: Mapping[str, Any] | str | None = field_of(load_arguments.INCREMENTS)
    tuning: Mapping[str, Any] | str | None = field_of(load_arguments.TUNING)

    def __post_init__(self) -> None:
        if self.key is not None:
            # A path of Airflow's, too.
            object.__setattr__(self, "key", str(self.key))
        for name, argument in declared(Load).items():
            value = getattr(self, name)
            if not argument.may_be_a_file and not is_of_a_run(value):
                object.__setattr__(self, name, argument.checked(value))
        load_arguments.check_groups(self.arguments)
        for name, group in load_arguments.GROUPS.items():
            if isinstance(value := getattr(self, name), Mapping) and not is_of_a_run(value):
                group.of(value)
        load_arguments.check_place(vars(self))
        if "://" in (self.key or "") and not is_of_a_run([self.bucket, self.key]):
            self.store.location  # noqa: B018 - of another storage, or it names a bucket, too
        self._check_columns()
        if self.is_by_arrival and self.create_table == "if_missing":
            raise ConfigurationError(
                "create_table='if_missing' with policies={'on_other_periods': 'spread'}: arrivals do not say by what "
                "the table is to be partitioned. Create it, as chs3 ddl suggests."
            )
        if not any(map(is_of_a_run, (self.fresh_by, self.timezone))):
            self.due  # noqa: B018 - it checks both
        if self.name is None and not is_of_a_run(self.table):
            object.__setattr__(self, "name", self.table.rpartition(".")[2])

    def _check_columns(self) -> None:
        """Check that columns are named once, and that what creates columns does not leave some out."""
        if self.columns is not None and not is_of_a_run(self.columns):
            if not self.columns:
                raise ConfigurationError("columns=[] names no column: leave it out to load all.")
            check_once(self.columns)
        adds = isinstance(self.policies, Mapping) and self.policies.get("on_new_columns") == "add"
        creating = {
            "create_table='if_missing'": self.create_table == "if_missing",
            "policies={'on_new_columns': 'add'}": adds,
        }
        names = " and ".join(name for name, is_asked in creating.items() if is_asked)
        if names and (self.select or self.columns):
            raise ConfigurationError(
                f"{names} creates all columns that the files have, and columns or select name those to load: leave "
                "one of them out."
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Load:
        """Create a load from arguments by name.

        Args:
            given: The arguments; those of operators that are no fields of a load are an error.

        Raises:
            ConfigurationError: If an argument is unknown, missing or wrong.
        """
        known = declared(cls)
        if unknown := sorted(str(name) for name in given if name not in known):
            near = get_close_matches(unknown[0], known, n=1)
            meant = f": do you mean {near[0]}?" if near else f": it takes {', '.join(known)}."
            raise ConfigurationError(f"A load has no argument {', '.join(unknown)}{meant}")
        if "table" not in given:
            raise ConfigurationError("The load has no table: set table=….")
        return cls(**given)

    @classmethod
    def read(cls, path: str | Path) -> tuple[Load, ...]:
        """Read the loads of a YAML or JSON file: `defaults`, and `loads`, a list with the arguments of each load.

        Args:
            path: The file's path. Those of files that it names are relative to its folder.

        Returns:
            The loads, in the order of the file; no two have the same name.

        Raises:
            ConfigurationError: If the file cannot be read, or something in it is wrong; the error names the line.
        """
        from airflow_provider_chs3.load.file import read_loads

        return read_loads(path)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        return self.changes

    @property
    def is_by_arrival(self) -> bool:
        """Return whether its periods are those in which objects arrive, rather than those of the table."""
        return load_arguments.is_by_arrival(self.policies)

    @property
    def given_settings(self) -> Mapping[str, Any]:
        """The settings.

        Raises:
            ConfigurationError: If they are the name of a file, which no task has read.
        """
        if isinstance(self.settings, str):
            raise ConfigurationError(
                f"settings={self.settings!r}: pass a dict; only tasks read files of the DAG folder."
            )
        return self.settings or {}

    @property
    def due(self) -> FreshBy | None:
        """When its periods are due, in its time zone, UTC without one; None if it does not say so.

        Raises:
            ConfigurationError: If that is a template.
        """
        if not self.fresh_by:
            return None
        if is_of_a_run([self.fresh_by, self.timezone]):
            raise ConfigurationError(
                f"fresh_by={self.fresh_by!r} with timezone={self.timezone!r} is a template, which only tasks render: "
                "name the load with --dag, or set a value."
            )
        from airflow_provider_chs3.core.model.freshness import FreshBy

        return FreshBy.parse(self.fresh_by, self.timezone)

    @property
    def due_after(self) -> timedelta:
        """The time from the midnight on which a period ends until it is due, for Airflow's deadlines.

        Raises:
            ConfigurationError: If the load does not say when its periods are due.
        """
        if self.due is None:
            raise ConfigurationError("The load has no fresh_by: set it, such as fresh_by='07:00'.")
        return self.due.after

    @property
    def definition(self) -> dict[str, Any]:
        """The arguments that plans and proofs compare by, without defaults."""
        names = {argument.name for argument in load_arguments.COMPARED}
        return {name: value for name, value in self.arguments.items() if name in names}

    @property
    def store(self) -> Storage:
        """The place of the objects."""
        from airflow_provider_chs3.sources import storage_class

        if self.objects is not None:
            return self.objects
        access = {} if self.aws_conn_id == CONFIGURED else {"aws_conn_id": self.aws_conn_id}
        return storage_class("s3")(key=self.key, bucket=self.bucket, **access)  # type: ignore[call-arg]  # S3's
