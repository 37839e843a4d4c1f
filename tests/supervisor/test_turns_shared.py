"""Turns that several have at the same time: nobody overtakes, and whoever must be alone is."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from supervisor.errors import ServerBusy
from supervisor.turns import Turns


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def take(turns: Turns, model: str | None, *, is_return: bool = False) -> "asyncio.Task[None]":
    taking = turns.take_for_operator() if model is None else turns.take_for_request(model, is_return=is_return)
    return asyncio.get_running_loop().create_task(taking)


async def taken(turns: Turns, *models: str | None) -> list[bool]:
    tasks = [take(turns, model) for model in models]
    await settle()
    return [task.done() for task in tasks]


async def test_a_turn_is_exclusive_until_it_is_shared() -> None:
    turns = Turns(8, 0)
    first, second, third, fourth = (take(turns, "a") for _ in range(4))
    await settle()
    assert [task.done() for task in (first, second, third, fourth)] == [True, False, False, False]
    turns.share("a", 3)
    await settle()
    assert [task.done() for task in (first, second, third, fourth)] == [True, True, True, False]
    assert turns.waiting == 1
    turns.release()
    await settle()
    assert fourth.done()


async def test_another_model_waits_for_all_and_lets_nobody_pass() -> None:
    turns = Turns(8, 0)
    await turns.take_for_request("a")
    turns.share("a", 4)
    second = take(turns, "a")
    other = take(turns, "b")
    late = take(turns, "a")
    await settle()
    assert (second.done(), other.done(), late.done()) == (True, False, False)
    turns.release()
    await settle()
    assert not other.done()
    turns.release()
    await settle()
    assert (other.done(), late.done()) == (True, False), "the turn of the other model is its own"


async def test_an_operator_waits_for_all_and_goes_ahead_of_who_would_join() -> None:
    turns = Turns(8, 0)
    await turns.take_for_request("a")
    turns.share("a", 2)
    operator = take(turns, None)
    late = take(turns, "a")
    await settle()
    assert (operator.done(), late.done()) == (False, False)
    turns.release()
    await settle()
    assert (operator.done(), late.done()) == (True, False)
    turns.share("b", 5)
    turns.release()
    await settle()
    assert late.done()


async def test_when_the_one_in_the_way_leaves_those_behind_it_join() -> None:
    turns = Turns(8, 0)
    await turns.take_for_request("a")
    turns.share("a", 2)
    other, late = take(turns, "b"), take(turns, "a")
    await settle()
    other.cancel()
    await settle()
    assert late.done()


async def test_who_must_be_alone_and_is_not_comes_back_ahead_of_all() -> None:
    turns = Turns(8, 0)
    await turns.take_for_request("a")
    turns.share("a", 3)
    second = take(turns, "a")
    waiting = take(turns, "b")
    await settle()
    assert second.done()
    assert not turns.claim()
    turns.release()
    back = take(turns, "a", is_return=True)
    await settle()
    assert not back.done(), "nobody joins any more"
    turns.release()
    await settle()
    assert (back.done(), waiting.done()) == (True, False)
    assert turns.claim()


async def test_who_could_join_at_once_is_no_waiter_for_the_bound() -> None:
    turns = Turns(1, 0)
    await turns.take_for_request("a")
    turns.share("a", 2)
    assert await taken(turns, "a", "a") == [True, False]

    with pytest.raises(ServerBusy):
        await turns.take_for_request("a")

    turns.close()
    await settle()


async def test_one_place_is_no_share() -> None:
    turns = Turns(8, 0)
    await turns.take_for_request("a")
    turns.share("a", 1)
    assert await taken(turns, "a") == [False]
    turns.close()
    await settle()


class SharedTurnsMachine(RuleBasedStateMachine):
    """Three models and an operator, places for three; every holder of an exclusive turn may open it."""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.turns = Turns(0, 0)
        self.queue: list[tuple[str | None, asyncio.Task[None]]] = []
        self.holders: list[str | None] = []

    def run(self, step: Callable[[], object]) -> None:
        async def do() -> None:
            step()
            await settle()

        self.loop.run_until_complete(do())
        # In order: those who wait are served from the front, operators first.
        ordered = [one for one in self.queue if one[0] is None] + [one for one in self.queue if one[0] is not None]
        served = [one for one in ordered if one[1].done()]
        assert served == ordered[: len(served)], "nobody overtakes"
        self.holders += [model for model, _ in served]
        self.queue = [one for one in self.queue if one not in served]

    @rule(model=st.sampled_from(["a", "a", "b", None]))
    def come(self, model: str | None) -> None:
        self.run(lambda: self.queue.append((model, take(self.turns, model))))

    @precondition(lambda self: self.holders)
    @rule(place=st.integers(0, 9))
    def release(self, place: int) -> None:
        self.holders.pop(place % len(self.holders))
        self.run(self.turns.release)

    @precondition(lambda self: len(self.holders) == 1 and self.holders[0] is not None)
    @rule()
    def share(self) -> None:
        self.run(lambda: self.turns.share(self.holders[0] or "", 3))

    @precondition(lambda self: self.queue)
    @rule(place=st.integers(0, 9))
    def leave(self, place: int) -> None:
        _model, task = self.queue.pop(place % len(self.queue))
        self.run(task.cancel)
        assert task.cancelled()

    @invariant()
    def only_requests_for_one_model_are_together(self) -> None:
        if not hasattr(self, "turns"):
            return

        assert len(self.holders) <= 3
        assert len(set(self.holders)) <= 1
        assert None not in self.holders or len(self.holders) == 1
        assert self.turns.is_taken == bool(self.holders)
        assert self.turns.is_shared == (len(self.holders) > 1)
        assert self.holders or not self.queue, "a free turn waits for nobody"

    def teardown(self) -> None:
        if not hasattr(self, "turns"):
            return

        while self.holders:
            self.release(0)

        assert not self.queue, "nobody starves"
        self.loop.close()


SharedTurnsMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSharedTurnsMachine = SharedTurnsMachine.TestCase
