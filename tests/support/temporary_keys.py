"""Temporary keys, as STS gives them out."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_chs3.testbed.s3 import S3Endpoint, S3Server

ALL = ("s3:*",)
LIST_ONLY = ("s3:ListBucket",)


def _policy(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


@dataclass(frozen=True)
class TemporaryKeys:
    """A key, its secret and the token without which they open nothing."""

    server: S3Endpoint
    access_key_id: str
    secret_key: str = field(repr=False)
    session_token: str = field(repr=False)

    @classmethod
    def of(cls, server: S3Endpoint, *, actions: tuple[str, ...] = ALL) -> TemporaryKeys:
        """Keys of a new role that may do this; moto alone has roles here."""
        if not isinstance(server, S3Server):
            pytest.skip("temporary keys: only the test bed's own S3 server (--chs3-s3=moto) gives them out")
        name = f"role-{uuid.uuid4().hex[:8]}"
        iam = server.client("iam")
        who = _policy(Principal={"AWS": "*"}, Action="sts:AssumeRole")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=who)["Role"]
        iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=_policy(Action=list(actions), Resource="*"))
        given = server.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="loader")["Credentials"]
        return cls(server, given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])

    def airflow_connection(self, *, secret_key: str = "", session_token: str = "") -> str:
        """The keys as JSON of an AWS connection; arguments change it."""
        fields = self.server.airflow_connection()
        extra = {**fields["extra"], "aws_session_token": session_token or self.session_token}
        login = {"login": self.access_key_id, "password": secret_key or self.secret_key}
        return json.dumps({**fields, **login, "extra": extra})
