"""What `/openapi.json` says holds: every answer has a documented status, content type and shape, and what the schemas forbid is refused.

Needs schemathesis, which is installed for this alone; skipped without it.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from prism.api.routes import ROUTES
from tests.fuzz.fuzzed_servers import stand_in_server
from tests.fuzz.valid_bodies import BODIES, DRAIN, EMBEDDINGS, MODEL, UNLOAD

schemathesis: Any = pytest.importorskip("schemathesis")
requests: Any = pytest.importorskip("requests")


RIGHT, WRONG = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
SHARED = [route for route in ROUTES if route.path not in (UNLOAD, DRAIN)]
CASES = [(route.method, route.path, RIGHT) for route in SHARED] + [
    (route.method, route.path, WRONG) for route in SHARED if route.request is not None
]
# Schemas cannot say all that makes a request right: which models there are, which take tools, what no model can read.
UNSAID = [schemathesis.checks.positive_data_acceptance]


@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_every_answer_is_one_that_is_published(stand_in: str, method: str, path: str, mode: Any) -> None:
    operation = schemathesis.openapi.from_url(f"{stand_in}/openapi.json")[path][method]

    with requests.Session() as session:

        @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def judge(case: Any) -> None:
            if mode is RIGHT and isinstance(case.body, dict) and "model" in case.body:
                case.body["model"] = MODEL

            case.call_and_validate(session=session, excluded_checks=UNSAID)

        judge()


@pytest.mark.parametrize("number", range(len(BODIES) - 2))
def test_answers_to_right_bodies_are_of_the_published_shape(stand_in: str, number: int) -> None:
    path, body = BODIES[number]
    operation = schemathesis.openapi.from_url(f"{stand_in}/openapi.json")[path]["POST"]

    with requests.Session() as session:
        for stream in (False, True):
            answer = session.post(stand_in + path, json={**body, "stream": stream})
            assert answer.status_code == (400 if path == EMBEDDINGS else 200)
            operation.validate_response(answer)


def test_answers_to_unload_and_drain_are_of_the_published_shape(tmp_path: Path) -> None:
    with stand_in_server(tmp_path) as base_url, requests.Session() as session:
        document = schemathesis.openapi.from_url(f"{base_url}/openapi.json")
        sent = [
            (UNLOAD, b"[]", 400),
            (UNLOAD, b"", 200),
            (UNLOAD, b"{}", 200),
            (DRAIN, b'{"timeout_ms": -1}', 400),
            (DRAIN, b"", 200),
        ]

        for path, body, status in sent:
            answer = session.post(base_url + path, data=body)
            assert answer.status_code == status
            document[path]["POST"].validate_response(answer)
