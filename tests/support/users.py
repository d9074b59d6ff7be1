"""Users whose profiles are as a careless or a careful administrator may have written them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from airflow_provider_chs3.testbed.nodes import PROGRAM_VARIABLE, User

#: Name → the settings of the profile.
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "skipping": {"input_format_csv_skip_first_lines": 1, "input_format_tsv_skip_first_lines": 1},
    "cutting": {"max_result_rows": 100, "result_overflow_mode": "break"},
    "limited": {"limit": 2},
    "offset": {"offset": 1},
    "impatient": {"max_execution_time": 0.001, "timeout_overflow_mode": "break"},
    "nullish": {"aggregate_functions_null_for_empty": 1},
    "extreme": {"extremes": 1},
    "filtering": {"filter": "number < 2"},
    "selecting": {"select": "1"},
    "few_partitions": {"max_partitions_per_insert_block": 2},
    "crowded": {"max_concurrent_queries_for_user": 2},
    "forcing": {
        "force_index_by_date": 1,
        "force_primary_key": 1,
        "force_optimize_projection": 1,
        "force_optimize_projection_name": "p",
        "force_optimize_skip_unused_shards": 2,
    },
    "forcing_index": {"force_data_skipping_indices": "i"},
    "filtering_results": {"additional_result_filter": "n = 1"},
    "read_only": {"readonly": 1},
    "fixed": {"constraints": {"optimize_on_insert": {"const": ""}}},
    "fixed_early": {"limit": 5, "constraints": {"limit": {"min": 1, "max": 5}}},
    "fixed_skipping": {
        "input_format_csv_skip_first_lines": 1,
        "constraints": {"input_format_csv_skip_first_lines": {"readonly": ""}},
    },
    "fixed_right": {"optimize_on_insert": 0, "constraints": {"optimize_on_insert": {"const": ""}}},
}

#: Profiles of settings that came after 25.8.
NEWER = ("filtering", "selecting")
if os.environ.get(PROGRAM_VARIABLE) == "server":
    PROFILES = {name: settings for name, settings in PROFILES.items() if name not in NEWER}


def user_of(profile: str) -> User:
    """Who has the profile, and all rights."""
    return User(f"user_{profile}", "of tests")


def cluster_of(profile: str) -> str:
    """The cluster of all nodes that ask each other as that user."""
    return f"as_{profile}"


#: Arguments of `ClickHouseCluster.start`.
WITH_PROFILES: dict[str, Any] = {
    "profiles": {user_of(name): settings for name, settings in PROFILES.items()},
    "clusters": {cluster_of(name): user_of(name) for name in PROFILES},
}
