"""How findings are told."""

from __future__ import annotations

from airflow_provider_chs3.core.doctor.report import Check
from airflow_provider_chs3.exceptions import ClickHouseConnectionError
from tests.core.surroundings import ONE, TWO
from tests.support.driving import server_error


def test_an_error_that_several_nodes_have_is_one_line():
    check = Check(name="x").with_errors(dict.fromkeys((ONE, TWO), server_error(241, "no\nmemory")))
    assert len(check.findings) == 1
    assert check.findings[0].startswith("ch-1:9000, ch-2:9000: ClickHouse error 241: no memory. Allow loads more")


def test_what_a_step_says_to_check_is_said_once():
    error = ClickHouseConnectionError("Refused (step: Ask; check that ch-1:9000 is up.)", "ch-1:9000")
    check = Check(name="x").with_errors({ONE: error})
    assert check.findings == ("ch-1:9000: no answer: Refused (step: Ask; check that ch-1:9000 is up.)",)
