"""Servers named by environment variables."""

from __future__ import annotations

import pytest

from airflow_provider_chs3.testbed.external import cluster_from, s3_from
from airflow_provider_chs3.testbed.nodes import Cluster, RunningNode, User
from airflow_provider_chs3.testbed.s3 import S3Endpoint
from tests.demo.serve import environment_for

CLUSTER = Cluster(
    [
        RunningNode("node1", "ch1.example.com", 9000, 8123, credentials=User("ann", "p@:/%'")),
        RunningNode("node2", "ch2.example.com", 9001, 8124, credentials=User("ann", "p@:/%'")),
    ],
    name="prod",
)
S3 = S3Endpoint("https://s3.example.com", "key", "secret", region="eu-west-1")


def test_the_variables_lead_back_to_the_nodes():
    assert cluster_from(environment_for(CLUSTER, S3)).nodes == CLUSTER.nodes


def test_the_variables_lead_back_to_the_clusters_name():
    assert cluster_from(environment_for(CLUSTER, S3)).name == "prod"


def test_the_variables_lead_back_to_the_s3_server():
    assert s3_from(environment_for(CLUSTER, S3)) == S3


@pytest.mark.parametrize("missing", ["CHS3_S3_ENDPOINT", "CHS3_S3_ACCESS_KEY", "CHS3_S3_SECRET_KEY"])
def test_a_missing_variable_is_named(missing):
    environment = environment_for(CLUSTER, S3)
    del environment[missing]
    with pytest.raises(ValueError, match=missing):
        s3_from(environment)


def test_a_wrong_uri_is_not_shown_for_it_holds_a_password():
    with pytest.raises(ValueError, match="CHS3_CLICKHOUSE_URI") as caught:
        cluster_from({"CHS3_CLICKHOUSE_URI": "http://ann:hunter2@ch1:8123"})
    assert "hunter2" not in str(caught.value)


def test_passwords_do_not_show_in_repr():
    assert "p@:/%'" not in repr(CLUSTER.nodes)
    assert "secret" not in repr(S3)
