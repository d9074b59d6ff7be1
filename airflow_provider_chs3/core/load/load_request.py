"""The request of a load, as the user set it.

It refuses arguments without effect: docs/reference/arguments.md shows the tables.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_provider_chs3.core.arguments.check_arguments import Checks
from airflow_provider_chs3.core.arguments.declaration import Group, declared, field_of
from airflow_provider_chs3.core.arguments.load_arguments import (
    DISTRIBUTION,
    GROUPS,
    MERGE_HEALTH,
    Files,
    Increments,
    PolicyGroup,
    Proof,
    is_by_arrival,
)
from airflow_provider_chs3.core.files.loaded_columns import Selection, selection_of
from airflow_provider_chs3.core.files.source import Source
from airflow_provider_chs3.core.files.table_suggestion import NewTableRequest
from airflow_provider_chs3.core.files.text_fields import Dialect
from airflow_provider_chs3.core.ledger.recording import Structure, structure_of
from airflow_provider_chs3.core.load.retry_policy import Reload
from airflow_provider_chs3.core.model.freshness import FreshBy
from airflow_provider_chs3.core.model.models import Manifest, NodeSpec, SettingValues
from airflow_provider_chs3.core.model.period import Period
from airflow_provider_chs3.core.model.store_kind import FORMATS, Format, format_named, format_of_key
from airflow_provider_chs3.core.target.node_facts import Target
from airflow_provider_chs3.core.target.topology import TableRequest
from airflow_provider_chs3.core.tuning.resource_share import ShareOptions
from airflow_provider_chs3.exceptions import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Policies(PolicyGroup, Increments, Proof):
    """Policies of a load: special cases, increments and proof."""

    group = ""

    distribution: str = field_of(DISTRIBUTION)

    def of_run(self, reload: Reload | None) -> Policies:
        """Return the policies with the permissions of a run's reload."""
        allowed = self
        if reload and reload.replace_rows_of_others:
            allowed = replace(allowed, replace_unknown=True, on_target_changed="reload")
        return replace(allowed, max_shrink_fraction=1) if reload and reload.allow_shrink else allowed

    @property
    def may_hold(self) -> bool:
        """Return whether a load may hold rows instead of publishing them."""
        return "hold" in (self.on_failed_check, self.on_shrink, self.on_target_changed)


#: Functions with keys among their arguments, which the servers' own logs hide.
_TAKES_KEYS = re.compile(r"crypt|hmac|keyed", re.IGNORECASE)


def definition_of(
    selection: Selection, policies: Policies, *, file_format: Format | None, compression: str
) -> dict[str, Any]:
    """Return the arguments that define the rows of a load, as users set them, without defaults."""
    files = {"file_format": file_format and file_format.name, "compression": compression.replace("auto", "")}
    arguments = {
        "columns": selection.columns,
        "select": selection.select,
        "csv": selection.csv.changes,
        "casts": selection.changes,
        "files": {name: value for name, value in files.items() if value},
        "policies": {name: value for name, value in policies.changes.items() if name == "on_other_periods"},
        "distribution": policies.changes.get("distribution"),
    }
    return {name: value for name, value in arguments.items() if value}


def digest_of(definition: Mapping[str, Any]) -> str:
    """Return a digest of the result of `definition_of`."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()[:16]


def parsed_definition(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `LoadRequest` that a definition decides, except settings."""
    files = Files.of(definition.get("files"))
    flat = {"distribution": definition["distribution"]} if "distribution" in definition else {}
    groups = (PolicyGroup.of(definition.get("policies")), Increments.of(definition.get("increments")), files)
    _check_switches(groups, definition)
    return {
        "format": format_named(files.file_format) if files.file_format else None,
        "compression": files.compression or "auto",
        "selection": selection_of(**{name: definition.get(name) for name in ("columns", "select", "csv", "casts")}),
        "policies": Policies.merged(*groups, **flat),
    }


@dataclass(frozen=True, kw_only=True)
class LoadRequest(TableRequest):
    """A request for loads of periods into a table; `period` is the first of them."""

    period: Period
    source: Source
    nonce: str
    now: datetime
    format: Format | None = None
    compression: str = "auto"
    selection: Selection = field(default_factory=Selection)
    policies: Policies = field(default_factory=Policies)
    settings: SettingValues = field(default_factory=dict)
    node_specs: Mapping[str, NodeSpec] = field(default_factory=dict)
    connection_node_specs: Mapping[str, NodeSpec] = field(default_factory=dict)
    share: ShareOptions = field(default_factory=ShareOptions)
    owner: str = ""
    is_durable: bool = False
    resumes: str | None = None
    reload: Reload | None = None
    new_table: NewTableRequest | None = None
    checks: Checks = field(default_factory=Checks)
    follows_views: bool = False
    fresh_by: FreshBy | None = None

    def __post_init__(self) -> None:
        about_files = [effect.key for effect in self._effects if not effect.is_of_rows]
        if self.policies.on_new_columns == "add":
            about_files.append("policies={'on_new_columns': 'add'}")
        if about_files and not self.source.has_files:
            raise ConfigurationError(
                f"{', '.join(about_files)}: this is about files, but {self.source.place} has no files. Leave it out."
            )
        name, path = self.policies.object_column, self.source.kind.path
        if name and self.selection.select.get(name, "").strip() != path:
            raise ConfigurationError(
                f"increments['object_column']={name!r}: a load finds an object's rows by its path. Name a column "
                f"of the table, and fill it with the path: select={{{name!r}: {path!r}, …}}."
            )

    @property
    def is_approval(self) -> bool:
        """Check whether the run asks to publish what is held, instead of loading it."""
        return self.reload is not None and self.reload.approve

    @property
    def _effects(self) -> list[Effect]:
        """The effects of the arguments that the user set and that not all formats have."""
        groups = (self.policies, self.selection, self.selection.csv)
        given = [(declared(type(holder))[name].group, name) for holder in groups for name in holder.changes]
        place = {"file_format": self.format, "compression": self.compression != "auto"}
        given += [("files", name) for name, is_given in place.items() if is_given]
        return [EFFECTS[key] for key in given if key in EFFECTS]

    @property
    def definition(self) -> str:
        """The digest of the load's definition; an approval has none: it publishes held rows, however they were made."""
        return "" if self.is_approval else digest_of(self.defined)

    @property
    def recorded_definition(self) -> dict[str, Any] | None:
        """The load's definition for its records; None if it may contain keys."""
        return None if any(map(_TAKES_KEYS.search, self.selection.select.values())) else self.defined

    @property
    def defined(self) -> dict[str, Any]:
        """The arguments that define its rows; see `definition_of`."""
        return definition_of(self.selection, self.policies, file_format=self.format, compression=self.compression)

    def structure(self, context: Target, *, shard_num: int | None = None) -> Structure:
        """Return the structure that rows depend on besides objects and definition (`core.ledger.recording`)."""
        if self.is_approval:
            # Only its record knows the other conditions, and whether the sharding key distributed its rows.
            return structure_of(context, distribution="sharding_key", settings=None)
        return structure_of(
            context,
            distribution=self.policies.distribution,
            settings=self.settings,
            shard_num=shard_num,
            adds_columns=self.policies.on_new_columns == "add",
        )

    def format_of(self, manifest: Manifest) -> Format:
        """Return the format that is set, or that of the keys' extension."""
        if self.source.kind.format is not None:
            return self.source.kind.format
        if not manifest.objects:
            return self.format or Format("Parquet", is_typed=True)
        file_format = self.format or self._format_of_keys(manifest)
        for effect in self._effects:
            if not effect.applies_to(file_format):
                raise ConfigurationError(
                    f"{effect.key} has no effect on {file_format.name}: {effect.reason}. {effect.way_out}"
                )
        return file_format

    def _format_of_keys(self, manifest: Manifest) -> Format:
        formats = {format_of_key(unit.key): unit.key for unit in manifest.objects}
        if len(formats) > 1:
            (first, key), (other, other_key) = list(formats.items())[:2]
            raise ConfigurationError(
                f"The period's objects have several formats: {key} looks like {first.name}, {other_key} like "
                f"{other.name}. "
                "Set files={'file_format': …}, or a key template that matches only one of them."
            )
        return next(iter(formats))


#: Formats with readers that give times without a zone.
_WITH_NAIVE_TIMES = ("Parquet", "ORC", "Arrow")


@dataclass(frozen=True)
class Effect:
    """An argument and the formats it has an effect on."""

    group: str
    name: str
    applies_to: Callable[[Format], bool] = lambda file_format: True
    reason: str = ""
    way_out: str = "Leave it out."
    is_of_rows: bool = False

    @property
    def key(self) -> str:
        """The argument as users write it."""
        return f"{self.group}[{self.name!r}]"

    @property
    def where(self) -> str:
        """The formats it has an effect on, as text, and whether rows of databases are among them."""
        formats = [name for name, file_format in FORMATS.items() if self.applies_to(file_format)]
        shown = "all formats" if len(formats) == len(FORMATS) else ", ".join(formats)
        return f"{shown}; rows of databases and of SELECTs" if self.is_of_rows else shown


_OF_CSV = "csv={…} describes CSV alone"
_TSV_AS_CSV = (
    "Leave it out; for a TSV file with quotes instead of backslashes, set files={'file_format': 'CSVWithNames'} and "
    "csv={'delimiter': '\\t'}."
)
_SKIP_IN_TSV = "Leave it out; in TSV, settings={'input_format_tsv_skip_first_lines': 1} skips a line."

#: Arguments that depend on the format of files.
_BY_FORMAT = (
    *(
        Effect(
            "csv",
            name,
            lambda file_format: file_format.is_csv,
            _OF_CSV,
            _SKIP_IN_TSV if name == "skip_lines" else _TSV_AS_CSV,
        )
        for name in declared(Dialect)
    ),
    Effect("files", "count_again", lambda file_format: file_format.name != "Parquet", "its footers have the rows"),
    Effect(
        "files",
        "unproved_codecs",
        lambda file_format: not file_format.has_footer,
        "its footer proves that an object is whole",
    ),
    Effect(
        "casts",
        "naive_timestamps",
        lambda file_format: file_format.name in _WITH_NAIVE_TIMES,
        "times without a zone are in that of their column",
    ),
    Effect(
        "policies",
        "on_new_columns",
        lambda file_format: file_format.names_columns,
        "its files do not name their columns",
        is_of_rows=True,
    ),
)
#: Arguments about files of any format.
_OF_FILES: Mapping[type[Group], tuple[str, ...]] = {
    Files: ("file_format", "compression"),
    Increments: ("incremental", "max_increments", "object_column"),
    PolicyGroup: ("on_other_periods", "min_object_age_seconds"),
}

#: Group and name → effect. All other arguments always have an effect.
EFFECTS: Mapping[tuple[str, str], Effect] = {
    (effect.group, effect.name): effect
    for effect in (*_BY_FORMAT, *(Effect(kind.group, name) for kind, names in _OF_FILES.items() for name in names))
}


@dataclass(frozen=True)
class Switch:
    """Arguments that other arguments switch off."""

    names: tuple[str, ...]
    beside: str
    is_off: Callable[[Mapping[str, Any]], bool]
    reason: str
    way_out: str = "Leave one of them out."


_HOLDING = ("on_failed_check", "on_shrink", "on_target_changed")

#: Policies about checks are examined only if the load's checks are known.
SWITCHES = (
    Switch(
        ("max_increments", "object_column"),
        "with increments={'incremental': False}",
        lambda all_of: not all_of["incremental"],
        "each load reads all of the period",
    ),
    Switch(
        ("on_shrink",),
        "with policies={'max_shrink_fraction': 1}",
        lambda all_of: bool(all_of["max_shrink_fraction"] == 1),
        "a period may lose all of its bytes",
    ),
    Switch(
        ("on_failed_check",),
        "without checks",
        lambda all_of: "checks" in all_of and not all_of["checks"],
        "no check can fail",
        "Leave it out, or set checks={…}.",
    ),
    Switch(
        ("hold_limit_days",),
        f"unless one of {', '.join(_HOLDING)} is 'hold'",
        lambda all_of: "hold" not in [all_of[name] for name in _HOLDING],
        "no rows are held",
        "Leave it out, or set policies={'on_failed_check': 'hold'}.",
    ),
    Switch(
        ("on_deleted_objects", "max_late_days"),
        "without policies={'on_other_periods': 'spread'}",
        lambda all_of: not is_by_arrival(all_of),
        "a load by period has no late rows, and removes those of deleted objects",
    ),
    Switch(
        ("on_target_changed",),
        "with policies={'on_other_periods': 'spread'} if it is 'hold'",
        lambda all_of: is_by_arrival(all_of) and all_of["on_target_changed"] == "hold",
        "its approval would replace what others change until then",
    ),
    Switch(
        (MERGE_HEALTH.name,),
        "without wait_for_merges=True",
        lambda all_of: not all_of.get("wait_for_merges"),
        "the load does not wait for merges",
        "Leave it out, or set wait_for_merges=True.",
    ),
)


def _check_switches(groups: Sequence[Group], arguments: Mapping[str, Any]) -> None:
    given = {name for group in groups for name in group.changes}
    if arguments.get(MERGE_HEALTH.name, MERGE_HEALTH.default) not in (MERGE_HEALTH.default, {}):
        given.add(MERGE_HEALTH.name)
    of_groups = {name: getattr(group, name) for group in groups for name in declared(type(group))}
    all_of = {**arguments, **of_groups}
    for switch in SWITCHES:
        if switch.is_off(all_of) and (off := [name for name in switch.names if name in given]):
            raise ConfigurationError(
                f"{written_name(off[0])} has no effect {switch.beside}: {switch.reason}. {switch.way_out}"
            )


def written_name(name: str) -> str:
    """Return an argument as users write it, with its group if it has one."""
    return next((kind[name].written for kind in map(declared, GROUPS.values()) if name in kind), name)
