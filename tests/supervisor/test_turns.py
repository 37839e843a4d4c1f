"""The queue for the worker: order, bounds, and that a turn is neither lost nor given twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from supervisor.errors import ServerBusy, ServerDraining
from supervisor.turns import Turns


async def settle() -> None:
    """Let everything that can run now run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_free_turn_is_taken_at_once() -> None:
    turns = Turns(8, 300)
    await turns.take_for_request("m")

    assert turns.is_taken
    assert turns.waiting == 0
    turns.release()
    assert not turns.is_taken


async def test_requests_in_order_and_operators_ahead_of_them() -> None:
    turns = Turns(8, 300)
    await turns.take_for_request("m")
    order: list[str] = []

    async def take(name: str, taking: Coroutine[Any, Any, None]) -> None:
        await taking
        order.append(name)
        turns.release()

    tasks = [
        asyncio.create_task(take("a", turns.take_for_request("m"))),
        asyncio.create_task(take("b", turns.take_for_request("n"))),
        asyncio.create_task(take("op1", turns.take_for_operator())),
        asyncio.create_task(take("c", turns.take_for_request("m"))),
        asyncio.create_task(take("op2", turns.take_for_operator())),
    ]
    await settle()
    assert turns.waiting == 3
    turns.release()
    await asyncio.gather(*tasks)

    assert order == ["op1", "op2", "a", "b", "c"]
    assert not turns.is_taken


async def test_the_bound_counts_those_who_wait_and_not_the_one_who_runs() -> None:
    turns = Turns(1, 300)
    await turns.take_for_request("m")
    waiting = asyncio.create_task(turns.take_for_request("m"))
    await settle()

    with pytest.raises(ServerBusy, match=r"1 requests wait already .*--max-queue 1"):
        await turns.take_for_request("m")

    operator = asyncio.create_task(turns.take_for_operator())
    await settle()
    assert turns.waiting == 1, "operators are not bound and not counted"
    turns.release()
    await operator
    turns.release()
    await waiting
    turns.release()


async def test_one_who_is_held_back_keeps_the_place_and_others_pass_by() -> None:
    turns = Turns(8, 300)
    hold_until = asyncio.get_running_loop().time() + 0.05
    order: list[str] = []

    def left_s() -> float:
        return max(hold_until - asyncio.get_running_loop().time(), 0.0)

    async def take(name: str, held_back_s: Callable[[], float]) -> None:
        await turns.take_for_request("m", held_back_s)
        order.append(name)
        turns.release()

    held = [asyncio.create_task(take(name, left_s)) for name in ("a", "b")]
    await settle()
    assert (turns.waiting, turns.is_taken) == (2, False)
    await take("c", lambda: 0.0)
    await asyncio.gather(*held)
    assert order == ["c", "a", "b"]
    assert (turns.waiting, turns.is_taken) == (0, False)


async def test_one_who_comes_back_goes_ahead_of_all_who_wait_and_past_the_bound() -> None:
    turns = Turns(1, 300)
    await turns.take_for_request("m")
    waiting = asyncio.create_task(turns.take_for_request("m"))
    await settle()
    coming_back = asyncio.create_task(turns.take_for_request("n", is_return=True))
    await settle()
    turns.release()
    await coming_back
    assert not waiting.done()
    turns.release()
    await waiting
    turns.release()


async def test_who_waits_may_be_waited_for() -> None:
    turns = Turns(8, 300)
    await turns.take_for_request("m")
    wanted = asyncio.create_task(turns.wait_wanted())
    await settle()
    assert not wanted.done()
    operator = asyncio.create_task(turns.take_for_operator())
    await wanted
    turns.release()
    await operator
    turns.release()


async def test_no_bound_means_no_bound() -> None:
    turns = Turns(0, 0)
    await turns.take_for_request("m")
    waiting = [asyncio.create_task(turns.take_for_request("m")) for _ in range(500)]
    await settle()
    assert turns.waiting == 500

    for task in waiting:
        turns.release()
        await task

    turns.release()


async def test_a_wait_that_is_too_long_is_refused_and_leaves_no_trace() -> None:
    turns = Turns(8, 0.02)
    await turns.take_for_request("m")

    with pytest.raises(ServerBusy, match=r"0\.02 s .*--queue-timeout"):
        await turns.take_for_request("m")

    assert turns.waiting == 0
    turns.release()
    assert not turns.is_taken


async def test_operators_wait_without_a_bound() -> None:
    turns = Turns(8, 0.01)
    await turns.take_for_request("m")
    operator = asyncio.create_task(turns.take_for_operator())
    await asyncio.sleep(0.05)
    assert not operator.done()
    turns.release()
    await operator


async def test_who_leaves_the_queue_frees_the_place_at_once() -> None:
    turns = Turns(1, 300)
    await turns.take_for_request("m")
    waiting = asyncio.create_task(turns.take_for_request("m"))
    await settle()
    waiting.cancel()
    await settle()

    assert turns.waiting == 0
    late = asyncio.create_task(turns.take_for_request("m"))
    await settle()
    turns.release()
    await late


@pytest.mark.parametrize("take", [lambda t: t.take_for_request("m"), lambda t: t.take_for_operator()])
async def test_who_leaves_in_the_moment_of_the_grant_hands_the_turn_on(
    take: Callable[[Turns], Coroutine[Any, Any, None]],
) -> None:
    turns = Turns(8, 300)
    await turns.take_for_request("m")
    leaving = asyncio.create_task(take(turns))
    await settle()
    second = asyncio.create_task(turns.take_for_request("m"))
    await settle()
    turns.release()
    leaving.cancel()
    await second

    assert leaving.cancelled()
    assert turns.is_taken
    turns.release()
    assert not turns.is_taken


async def test_whose_time_is_over_in_the_moment_of_the_grant_hands_the_turn_on() -> None:
    loop = asyncio.get_running_loop()
    turns = Turns(8, 0.02)
    await turns.take_for_request("m")
    late = asyncio.create_task(turns.take_for_request("m"))
    await settle()
    # The grant comes in the same turn of the loop as the end of the time, in either order.
    loop.call_later(0.02, turns.release)
    outcome = (await asyncio.gather(late, return_exceptions=True))[0]

    assert outcome is None or isinstance(outcome, ServerBusy)
    assert turns.is_taken == (outcome is None)


async def test_close_refuses_those_who_wait_and_those_who_come_but_no_operator() -> None:
    turns = Turns(8, 300)
    await turns.take_for_request("m")
    waiting = [asyncio.create_task(turns.take_for_request("m")) for _ in range(3)]
    await settle()
    turns.close()

    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, ServerDraining)

    with pytest.raises(ServerDraining):
        await turns.take_for_request("m")

    operator = asyncio.create_task(turns.take_for_operator())
    await settle()
    turns.release()
    await operator
    turns.release()
    assert not turns.is_taken

    with pytest.raises(ServerDraining):
        await turns.take_for_request("m")


async def test_who_leaves_in_the_moment_of_the_close_leaves_no_error_behind() -> None:
    turns = Turns(8, 300)
    await turns.take_for_request("m")
    waiting = asyncio.create_task(turns.take_for_request("m"))
    await settle()
    turns.close()
    waiting.cancel()
    await asyncio.wait({waiting})
    turns.release()

    assert waiting.cancelled() or isinstance(waiting.exception(), ServerDraining)
    assert not turns.is_taken


async def test_next_wants_looks_at_the_one_whose_turn_is_next() -> None:
    turns = Turns(8, 300)
    assert not turns.next_wants("a")
    await turns.take_for_request("m")
    first = asyncio.create_task(turns.take_for_request("a"))
    second = asyncio.create_task(turns.take_for_request("b"))
    await settle()
    assert turns.next_wants("a")
    assert not turns.next_wants("b")

    # It has left, though it had no chance yet to leave the queue.
    first.cancel()
    assert not turns.next_wants("a")
    assert turns.next_wants("b")
    await settle()

    operator = asyncio.create_task(turns.take_for_operator())
    await settle()
    assert not turns.next_wants("b"), "the operator is next"
    operator.cancel()
    assert turns.next_wants("b")
    second.cancel()
    await settle()
    assert not turns.next_wants("b")


async def test_a_turn_that_somebody_has_is_not_free() -> None:
    turns = Turns(8, 300)
    assert turns.take_if_free()
    assert not turns.take_if_free()
    turns.release()
    await turns.take_for_operator()
    assert not turns.take_if_free()


class _Taker:
    """One who takes, and what became of it."""

    def __init__(self, task: "asyncio.Task[None]", is_operator: bool) -> None:
        self.task = task
        self.is_operator = is_operator


class TurnsMachine(RuleBasedStateMachine):
    """Compares Turns with a model: a list of those who wait, and the one who has the turn."""

    takers: "Bundle[_Taker]" = Bundle("takers")

    @initialize(max_queue=st.integers(0, 4))
    def start(self, max_queue: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.max_queue = max_queue
        self.turns = Turns(max_queue, 0)
        self.queue: list[_Taker] = []
        self.holder: _Taker | None = None
        self.is_closed = False

    def run(self, step: Callable[[], object] | None = None) -> None:
        """Do a step inside the loop and let everything that follows from it happen."""

        async def do() -> None:
            if step is not None:
                step()

            await settle()

        self.loop.run_until_complete(do())

    def next_in_queue(self) -> _Taker | None:
        ordered = [t for t in self.queue if t.is_operator] + [t for t in self.queue if not t.is_operator]
        return ordered[0] if ordered else None

    def hand_on(self) -> None:
        self.holder = self.next_in_queue()

        if self.holder is not None:
            self.queue.remove(self.holder)

    @rule(target=takers, is_operator=st.booleans())
    def take(self, is_operator: bool) -> _Taker:
        taking = self.turns.take_for_operator() if is_operator else self.turns.take_for_request("m")
        taker = _Taker(self.loop.create_task(taking), is_operator)
        waiting = sum(not t.is_operator for t in self.queue)
        is_full = self.holder is not None and self.max_queue and waiting >= self.max_queue
        self.run()

        if not is_operator and self.is_closed:
            assert isinstance(taker.task.exception(), ServerDraining)
        elif not is_operator and is_full:
            assert isinstance(taker.task.exception(), ServerBusy)
        elif self.holder is None:
            self.holder = taker
        else:
            self.queue.append(taker)

        return taker

    @rule(taker=takers)
    def leave(self, taker: _Taker) -> None:
        self.run(taker.task.cancel)

        if taker in self.queue:
            self.queue.remove(taker)
            assert taker.task.cancelled()

    @precondition(lambda self: self.holder is not None)
    @rule()
    def release(self) -> None:
        self.run(self.turns.release)
        self.hand_on()

    @precondition(lambda self: self.holder is not None)
    @rule(is_leaving_first=st.booleans())
    def release_and_leave_at_once(self, is_leaving_first: bool) -> None:
        """The next one leaves in the very moment in which it gets the turn."""
        leaver = self.next_in_queue()

        def both() -> None:
            if leaver is not None and is_leaving_first:
                leaver.task.cancel()

            self.turns.release()

            if leaver is not None and not is_leaving_first:
                leaver.task.cancel()

        self.run(both)

        if leaver is not None:
            self.queue.remove(leaver)
            assert leaver.task.cancelled()

        self.hand_on()

    @rule()
    def close(self) -> None:
        refused = [t for t in self.queue if not t.is_operator]
        self.run(self.turns.close)
        self.is_closed = True
        self.queue = [t for t in self.queue if t.is_operator]
        assert all(isinstance(t.task.exception(), ServerDraining) for t in refused)

    @rule()
    def take_if_free(self) -> None:
        assert self.turns.take_if_free() == (self.holder is None)

        if self.holder is None:
            self.turns.release()

    @invariant()
    def is_as_the_model_says(self) -> None:
        if not hasattr(self, "turns"):
            return

        assert self.turns.is_taken == (self.holder is not None)
        assert self.turns.waiting == sum(not t.is_operator for t in self.queue)
        assert all(not t.task.done() for t in self.queue), "nobody who waits is forgotten or served out of turn"

        if self.holder is not None:
            assert self.holder.task.done()
            assert self.holder.task.exception() is None

    def teardown(self) -> None:
        if not hasattr(self, "turns"):
            return

        # Nobody starves: with releases alone everybody gets the turn.
        while self.holder is not None:
            self.release()
            self.is_as_the_model_says()

        assert not self.queue
        self.loop.close()


TurnsMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTurnsMachine = TurnsMachine.TestCase
