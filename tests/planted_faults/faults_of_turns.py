"""Faults of the queue: order, bounds, turns that are lost or given twice."""

from tests.planted_faults.fault import Fault

_QUEUE = ("tests/supervisor/test_turns.py",)
_SHARED = ("tests/supervisor/test_turns_shared.py",)
_HOST = "tests/supervisor/test_model_host.py"

FAULTS = (
    Fault(
        name="turn-kept-when-client-leaves",
        says="the turn of a client that left in the middle of its answer is never given to the next",
        file="supervisor/settling.py",
        text=(
            "            if not worker.is_usable and not self._turns.is_shared:\n"
            "                await self._residency.stop()\n"
            "        finally:\n"
            "            self._turns.release()\n"
        ),
        planted=(
            "            if not worker.is_usable and not self._turns.is_shared:\n"
            "                await self._residency.stop()\n"
            "        finally:\n"
            "            pass\n"
        ),
        tests=(f"{_HOST}::test_a_client_that_leaves_while_decoding_frees_the_worker",),
    ),
    Fault(
        name="turn-lost-in-the-moment-of-its-grant",
        says="a waiter that leaves in the moment in which it gets the turn keeps it for ever",
        file="supervisor/turns.py",
        text="waiter.granted.exception() is None:\n            self.release()",
        planted="waiter.granted.exception() is None:\n            pass",
        tests=_QUEUE,
    ),
    Fault(
        name="waiter-that-left-keeps-its-place",
        says="one who leaves the queue still counts as waiting",
        file="supervisor/turns.py",
        text="            queue.remove(waiter)\n            # It may have",
        planted="            # It may have",
        tests=_QUEUE,
    ),
    Fault(
        name="operators-behind-requests",
        says="an unload waits behind all requests that wait",
        file="supervisor/turns.py",
        text="for waiter in [*self._operators, *self._requests]:",
        planted="for waiter in [*self._requests, *self._operators]:",
        tests=_QUEUE,
    ),
    Fault(
        name="one-who-comes-back-loses-its-place",
        says="a request that let others pass in a back-off comes back behind all who came later",
        file="supervisor/turns.py",
        text="self._requests.appendleft(waiter) if is_return else self._requests.append(waiter)",
        planted="self._requests.append(waiter)",
        tests=_QUEUE,
    ),
    Fault(
        name="max-queue-counts-the-running-one",
        says="the bound of waiting requests counts those that have the turn too",
        file="supervisor/turns.py",
        text="is_full = 0 < self._max_queue <= len(self._requests)",
        planted="is_full = 0 < self._max_queue <= len(self._requests) + self._holders",
        tests=_QUEUE,
    ),
    Fault(
        name="queue-timeout-ignored",
        says="a request waits for its turn without a bound",
        file="supervisor/turns.py",
        text="async with asyncio.timeout_at(deadline):",
        planted="async with asyncio.timeout_at(None):",
        tests=(f"{_HOST}::test_waiting_too_long_is_refused",),
    ),
    Fault(
        name="back-off-blocks-the-queue",
        says="nobody passes one whose model may not be started yet",
        file="supervisor/turns.py",
        text="            if not waiter.granted.done() and waiter.held_back_s() <= 0:\n                yield waiter",
        planted=(
            "            if waiter.held_back_s() > 0:\n                return\n\n"
            "            if not waiter.granted.done():\n                yield waiter"
        ),
        tests=_QUEUE,
    ),
    Fault(
        name="shared-turn-lets-another-model-in",
        says="while several requests share a worker, a request for another model joins them",
        file="supervisor/turns.py",
        text="return share is not None and waiter.model_id == share.model_id and self._holders < share.places",
        planted="return share is not None and self._holders < share.places",
        tests=_SHARED,
    ),
    Fault(
        name="shared-turn-has-no-bound",
        says="more requests are given to a worker than it takes",
        file="supervisor/turns.py",
        text="waiter.model_id == share.model_id and self._holders < share.places",
        planted="waiter.model_id == share.model_id",
        tests=_SHARED,
    ),
    Fault(
        name="load-while-others-have-the-turn",
        says="a request changes the worker although others still use it",
        file="supervisor/turns.py",
        text="return self._holders == 1\n\n    @property\n    def max_queue",
        planted="return True\n\n    @property\n    def max_queue",
        tests=_SHARED,
    ),
    Fault(
        name="claimed-turn-stays-open",
        says="requests go on joining a turn that somebody wants for itself",
        file="supervisor/turns.py",
        text='        self._share = None\n        self._events.write("turn_claimed")',
        planted='        self._events.write("turn_claimed")',
        tests=_SHARED,
    ),
    Fault(
        name="drain-lets-new-requests-in",
        says="a draining server goes on taking requests",
        file="supervisor/turns.py",
        text="        if self._closed is not None:\n            raise self._closed",
        planted="        pass",
        tests=_QUEUE,
    ),
    Fault(
        name="drain-forgets-those-who-wait",
        says="requests that wait when a drain begins are told nothing",
        file="supervisor/turns.py",
        text="waiter.granted.set_exception(self._closed)",
        planted="pass",
        tests=_QUEUE,
    ),
    Fault(
        name="second-drain-starts-anew",
        says="a second drain does not get the answer of the first",
        file="supervisor/model_host.py",
        text="if self._drained is None:",
        planted="if True:",
        tests=(f"{_HOST}::test_drain_refuses_those_who_wait_and_lets_the_running_one_end",),
    ),
    Fault(
        name="death-fails-those-who-wait",
        says="the death of a worker is told to the requests in the queue too",
        file="supervisor/settling.py",
        text="        if worker is None or worker.state is WorkerState.EXITED:\n            self._turns.release()",
        planted=(
            "        if worker is not None and worker.has_crashed:\n"
            "            for waiter in list(self._turns._requests):\n"
            '                waiter.granted.set_exception(WorkerUnresponsive("the worker died"))\n\n'
            "            self._turns._requests.clear()\n\n"
            "        if worker is None or worker.state is WorkerState.EXITED:\n            self._turns.release()"
        ),
        tests=(f"{_HOST}::test_those_who_waited_are_served_by_the_next_worker",),
    ),
)
