"""Every case of the tables, against one running server."""

import pytest

from tests.contract import cases_answers, cases_chat, cases_fields, cases_ollama, cases_server
from tests.contract.client import Case, Client

CASES = (*cases_fields.CASES, *cases_chat.CASES, *cases_answers.CASES, *cases_server.CASES, *cases_ollama.CASES)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.row}: {case.says}" for case in CASES])
def test_the_row_holds(case: Case, served: Client) -> None:
    case.check(served)
