"""Arguments of operators by their names alone, as tests vary them: each goes into its group."""

from __future__ import annotations

from typing import Any

from airflow_provider_chs3.core.arguments.declaration import declared
from airflow_provider_chs3.core.arguments.load_arguments import GROUPS
from airflow_provider_chs3.load import Load
from airflow_provider_chs3.sources.s3 import S3Objects

_GROUP_OF = {name: group for group, kind in GROUPS.items() for name in declared(kind)}
_ACCESS = ("named_collection", "role_arn", "external_id", "endpoint_url")


def grouped(**given: Any) -> dict[str, Any]:
    """Return the arguments as an operator of S3 takes them; with a `definition`, as one takes a load."""
    if (definition := given.pop("definition", None)) is not None:
        arguments = grouped(**given | definition)
        of_load = {name: arguments.pop(name) for name in declared(Load) if name in arguments}
        return {"load": Load.of(of_load), **arguments}
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        if name in _GROUP_OF:
            arguments[_GROUP_OF[name]] = {**arguments.get(_GROUP_OF[name], {}), name: value}
        else:
            arguments[name] = value
    if "key" in given and (access := {name: arguments.pop(name) for name in _ACCESS if name in arguments}):
        place = {name: arguments.pop(name) for name in ("key", "bucket", "aws_conn_id") if name in arguments}
        arguments["objects"] = S3Objects(**place, **access)
    return arguments
