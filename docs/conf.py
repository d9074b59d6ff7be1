"""How Sphinx builds the documentation: `./dev docs`. Every warning is an error there, and nothing is fetched."""

from __future__ import annotations

import logging
import os
import re
from importlib.metadata import metadata
from inspect import Parameter, Signature, cleandoc, signature
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sphinx.util.inspect import stringify_signature

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# On import it prints where it read its configuration.
logging.getLogger("airflow").setLevel(logging.WARNING)

_package = metadata("airflow-provider-chs3")

project = _package["Name"]
version = release = _package["Version"]
author = "the airflow-provider-chs3 authors"
project_copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["colon_fence"]
source_suffix = {".md": "markdown"}
# Pages of `benchmarks/` are parts of benchmarks.md, the tables of `tested/` of its index.md and of compatibility.md.
exclude_patterns = ["newsfragments", "benchmarks", "tested/[!i]*"]

# References that lead nowhere are warnings too ...
nitpicky = True
# ... but for what other packages define, whose pages would have to be fetched, and for type variables.
nitpick_ignore_regex = [
    # The values that `Table` returns say themselves what they have.
    (r"py:class", r"airflow_provider_chs3\.core\.(periods|model\.period)\..*"),
    # The base of the hook, whose members the hook's page shows.
    (r"py:class", r"airflow_provider_chs3\.client\.session\.Session"),
    (r"py:.*", r"(?!airflow_provider_chs3\.).*"),
    (r"py:class", r".*\._[A-Z]\w*"),
]

# Links between pages name their headings as GitHub does.
myst_heading_anchors = 3

# Docstrings write code in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
# Other packages' types lead to their documentation. Where each is described has to be fetched: that needs a network, so
# only the published pages have these links (.github/workflows/docs.yml).
if os.environ.get("CHS3_DOCS_INTERSPHINX") == "1":
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "airflow-sdk": ("https://airflow.apache.org/docs/task-sdk/stable", None),
    "clickhouse-driver": ("https://clickhouse-driver.readthedocs.io/en/stable", None),
    "pyarrow": ("https://arrow.apache.org/docs", None),
    "sqlalchemy": ("https://docs.sqlalchemy.org/en/20", None),
}
# What only type checkers import, and what is described under another name than that of its module.
autodoc_type_aliases = {
    "AirflowConnection": "airflow.sdk.Connection",
    "Client": "clickhouse_driver.Client",
    "Context": "airflow.sdk.Context",
    "Engine": "sqlalchemy.engine.Engine",
    "TaskGroup": "airflow.sdk.TaskGroup",
    "pa.Table": "pyarrow.Table",
}

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
# One argument a line, where a signature is long.
maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
# The theme's sidebar, and other versions.
templates_path = ["_templates"]
html_js_files = [("versions.js", {"defer": "defer"})]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
# Each page of a release leads to its source, where readers can edit it: the repository is named as for `./dev release`.
if repository := os.environ.get("CHS3_PROJECT_URL", "").rstrip("/"):
    html_theme_options = {
        "source_repository": f"{repository}/",
        "source_branch": "main",
        "source_directory": "docs/",
    }
html_show_sphinx = False
html_show_copyright = False
# Otherwise code blocks that name no language would be taken for Python.
highlight_language = "none"


def setup(app: Sphinx) -> None:
    """Improve what autodoc writes.

    Defaults of dataclasses are Python, as Sphinx breaks no line of a signature that it cannot parse. Each operator has
    all of its arguments, also those of its bases, and names its templated fields, as no docstring does.
    """
    app.connect("source-read", _with_tables_of_arguments)
    app.connect("autodoc-process-signature", _whole_signature)
    # Before napoleon, which reads the arguments.
    app.connect("autodoc-process-docstring", _with_inherited_arguments, priority=400)
    # After it: it ends the docstring with the list of fields that this one joins.
    app.connect("autodoc-process-docstring", _with_template_fields, priority=600)


def _with_tables_of_arguments(app: Sphinx, page: str, source: list[str]) -> None:
    """Write a table of the declared arguments wherever a page asks for those of a load, or of one of its groups."""
    source[0] = re.sub(r"<!-- arguments: (\w+) -->", lambda asked: _table_of_arguments(asked[1]), source[0])
    source[0] = source[0].replace("<!-- effects -->", _table_of_effects())
    source[0] = source[0].replace("<!-- switches -->", _table_of_switches())


def _table_of_arguments(asked: str) -> str:
    from airflow_provider_chs3.core.arguments.declaration import declared
    from airflow_provider_chs3.core.arguments.load_arguments import GROUPS
    from airflow_provider_chs3.core.files.text_fields import Dialect
    from airflow_provider_chs3.operators._support.declared import arguments_of
    from airflow_provider_chs3.transfers.s3_to_clickhouse import S3ToClickHouseOperator

    found = arguments_of(S3ToClickHouseOperator) if asked == "load" else declared({**GROUPS, "csv": Dialect}[asked])
    rows = [f"| `{name}` | {each.described} |" for name, each in found.items()]
    return "\n".join(["| argument | meaning |", "|---|---|", *rows])


def _table_of_effects() -> str:
    from airflow_provider_chs3.core.load.load_request import EFFECTS

    by_place: dict[str, list[str]] = {}
    for each in EFFECTS.values():
        by_place.setdefault(each.where, []).append(f"`{each.key}`")
    rows = [f"| {', '.join(keys)} | {where} |" for where, keys in by_place.items()]
    return "\n".join(["| argument | has an effect on |", "|---|---|", *rows])


def _table_of_switches() -> str:
    from airflow_provider_chs3.core.load.load_request import SWITCHES, written_name

    rows = [
        f"| {', '.join(f'`{written_name(name)}`' for name in each.names)} | {each.beside} | {each.reason} |"
        for each in SWITCHES
    ]
    return "\n".join(["| argument | has no effect | because |", "|---|---|---|", *rows])


def _whole_signature(app: Sphinx, kind: str, name: str, what: Any, options: Any, arguments: str, result: str) -> Any:
    if not arguments or not hasattr(what, "template_fields"):
        return (arguments.replace("<factory>", "..."), result) if arguments else None
    documented = _documented_arguments(what)
    inits = [vars(base)["__init__"] for base in reversed(what.__mro__) if _is_ours(base) and "__init__" in vars(base)]
    parameters = {name: each for init in inits for name, each in signature(init).parameters.items()}
    ours = [parameters[name] for name in documented if name in parameters]
    whole = Signature([*ours, Parameter("kwargs", Parameter.VAR_KEYWORD)])
    return stringify_signature(whole, unqualified_typehints=True), result


def _with_inherited_arguments(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    if what == "class" and hasattr(value, "template_fields") and (arguments := _documented_arguments(value)):
        if "Args:" not in lines:
            start = next((at for at, line in enumerate(lines) if line in ("Returns:", "Raises:")), len(lines))
            lines[start:start] = ["Args:", ""]
        start = lines.index("Args:") + 1
        own = len(_indented(lines[start:]))
        lines[start : start + own] = [line for each in arguments.values() for line in each]


def _documented_arguments(operator: type) -> dict[str, list[str]]:
    """Return the lines of each argument, those of bases first."""
    found: dict[str, list[str]] = {}
    for base in reversed(operator.__mro__):
        lines = cleandoc(base.__doc__ or "").splitlines() if _is_ours(base) else []
        for line in _indented(lines[lines.index("Args:") + 1 :]) if "Args:" in lines else ():
            if argument := re.match(r" {4}(\w+):", line):
                found[argument[1]] = lines_of_one = []
            lines_of_one.append(line)
    return found


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("airflow_provider_chs3.")


def _indented(lines: list[str]) -> list[str]:
    return list(takewhile(lambda line: line.startswith(" "), lines))


def _with_template_fields(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    if what == "class" and (fields := getattr(value, "template_fields", ())):
        lines += [f":Templated fields: {', '.join(f'``{each}``' for each in fields)}", ""]
