"""Whatever becomes of a valid body, the answer is as documented, and the worker that was there before is there after.

A sample of what `python -m tests.fuzz` does at length.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.campaign import Tally, run_campaign, worker_of
from tests.fuzz.fuzzed_servers import stand_in_server
from tests.fuzz.judge import changes_the_server, complaint_about
from tests.fuzz.odd_requests import right_request
from tests.fuzz.valid_bodies import BODIES, CHAT, COMPLETIONS, UNLOAD
from tests.raw_http import send, send_raw

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["\0", "\ud83d", "auto", "none", "text", "user", 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def assert_clean(tally: Tally) -> None:
    assert not tally.complaints, "\n".join(tally.lines())
    assert tally.server_faults == 0, tally.statuses
    assert tally.worker_before == tally.worker_after
    # What never reaches a worker shows little.
    assert tally.statuses[200, "-"] > tally.bodies // 20
    assert tally.streams > 0


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_undamaged_bodies_are_answered(stand_in: str, path: str) -> None:
    for body in [body for of, body in BODIES if of == path]:
        attack = right_request(path, json.dumps(body).encode())
        reply = send_raw(stand_in, attack.data)
        assert reply.status == 200, reply
        assert complaint_about(attack, reply) is None


def test_damaged_bodies_end_as_documented(stand_in: str) -> None:
    assert_clean(run_campaign(stand_in, seed=3, count=700))


@pytest.mark.engine
def test_damaged_bodies_end_as_documented_on_the_engine(engine: str) -> None:
    assert_clean(run_campaign(engine, seed=4, count=300))


def places(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for step, child in children for found in places(child, (*place, step)))]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_value_in_any_place_ends_as_documented(stand_in: str, data: st.DataObject) -> None:
    path, body = data.draw(st.sampled_from(BODIES[:7]))
    root = {"": copy.deepcopy(dict(body))}
    *steps, last = data.draw(st.sampled_from(places(root)[1:]))
    parent: Any = root

    for step in steps:
        parent = parent[step]

    parent[last] = data.draw(JSON_VALUES)
    content = json.dumps(root[""], ensure_ascii=data.draw(st.booleans())).encode("utf-8", "surrogatepass")
    attack = right_request(path, content)

    assert complaint_about(attack, send_raw(stand_in, attack.data)) is None


@given(
    content=st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=3).map(json.dumps).map(str.encode) | st.binary()
)
@settings(max_examples=100, deadline=None)
def test_whatever_is_no_object_leaves_the_model_where_it_is(stand_in: str, content: bytes) -> None:
    attack = right_request(UNLOAD, content)

    if not changes_the_server(attack):
        before = worker_of(stand_in)
        reply = send_raw(stand_in, attack.data)
        assert complaint_about(attack, reply) is None
        assert (reply.status, worker_of(stand_in)) == (400, before)


def test_an_unload_that_is_meant_is_no_restart(tmp_path: Path) -> None:
    chat = json.dumps(BODIES[0][1])

    with stand_in_server(tmp_path) as base_url:
        pids = {worker_of(base_url)[0]}

        for content in (b"", b"{}", b'{"x": [1e999, {"a": null}]}', b'{"model": 7}'):
            attack = right_request(UNLOAD, content)
            reply = send_raw(base_url, attack.data)
            assert (reply.status, complaint_about(attack, reply)) == (200, None)
            assert reply.json["unloaded"] is True
            assert send(base_url, "POST", CHAT, body=chat).status == 200
            pid, restarts = worker_of(base_url)
            assert restarts == 0
            pids.add(pid)

    assert len(pids) == 5
