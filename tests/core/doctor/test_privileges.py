"""The doctor on the user's privileges, by the user's purpose."""

from __future__ import annotations

from airflow_provider_chs3.core.doctor.privileges import PURPOSES, check_rights, privileges_by_purpose
from airflow_provider_chs3.core.doctor.report import CheckOutcome
from airflow_provider_chs3.core.model.models import TableName
from airflow_provider_chs3.core.target.privileges import RequiredPrivileges
from airflow_provider_chs3.core.target.topology import TableLocation
from airflow_provider_chs3.sources.s3.reading import S3
from tests.core.surroundings import ONE, TWO

USERS = {ONE: "me", TWO: "me"}
NEEDED = {
    "load": RequiredPrivileges(("A ON x", "B ON y"), ("C ON t",)),
    "plan": RequiredPrivileges(("B ON y",)),
    "page": RequiredPrivileges(("D ON z",)),
}


class TestRights:
    def found(self, granted, *, purposes=("load",), has_table=True, needed=NEEDED):
        def answer(step):
            if step.name == "Ask what forbids it":
                return {node: [(0, True)] for node in step.sql}
            asked = {node: sql.text.removeprefix("CHECK GRANT ").split(", ") for node, sql in step.sql.items()}
            return {node: [(int(set(each) <= granted[node]),)] for node, each in asked.items()}

        steps = check_rights(USERS, needed, purposes=purposes, has_table=has_table)
        try:
            step = next(steps)
            while True:
                step = steps.send(answer(step))
        except StopIteration as done:
            return done.value

    def test_what_is_missing_names_who_needs_it_and_the_grant(self):
        all_but_b = {"A ON x", "C ON t", "D ON z"}
        check = self.found({ONE: all_but_b, TWO: all_but_b})
        assert check.findings == (
            "ch-1:9000, ch-2:9000: user 'me' lacks privileges for load, plan: run GRANT B ON y TO `me` there.",
        )
        assert check.summary == "everything needed for: page"

    def test_what_the_user_is_not_for_is_a_remark(self):
        check = self.found({ONE: {"A ON x", "B ON y", "C ON t"}, TWO: {"A ON x", "B ON y", "C ON t", "D ON z"}})
        assert (check.findings, check.outcome) == ((), CheckOutcome.OK)
        assert check.remarks == ("ch-1:9000: user 'me' lacks privileges for page: run GRANT D ON z TO `me` there.",)

    def test_what_can_be_done_without_is_a_remark_with_what_that_costs(self):
        queue = "SELECT ON system.replication_queue"
        needed = {"merges": RequiredPrivileges(("A ON x", queue))}
        check = self.found({ONE: {"A ON x"}, TWO: {"A ON x", queue}}, purposes=("merges",), needed=needed)
        assert (check.findings, check.summary) == ((), "everything needed for: merges")
        (remark,) = check.remarks
        assert remark.startswith(f"ch-1:9000: the user lacks {queue}: merge health then waits for all parts")

    def test_without_a_table_nothing_is_asked_about_tables(self):
        on_servers = {"A ON x", "B ON y", "D ON z"}
        check = self.found({ONE: on_servers, TWO: on_servers}, has_table=False)
        assert (check.findings, check.remarks) == ((), ())

    def test_every_purpose_has_its_privileges(self):
        place = TableLocation(
            cluster="c", target=TableName("taxi", "trips"), ledger=TableName("taxi", "l"), nodes=(ONE,)
        )
        needed = privileges_by_purpose(place, named_collection=None, is_replicated=True, is_shared=True, store=S3)
        assert set(needed) == set(PURPOSES)
        assert "SELECT ON system.replicas" in needed["load"].every
