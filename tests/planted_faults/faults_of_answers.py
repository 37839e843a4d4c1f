"""Faults of requests: their ends, their cancels, and what is done again for them."""

from tests.planted_faults.fault import Fault

_STREAM = ("tests/supervisor/test_request_stream.py",)
_HOST = "tests/supervisor/test_model_host.py"
_AGAIN = "tests/supervisor/test_model_host_begin_again.py"

FAULTS = (
    Fault(
        name="two-ends-in-the-server",
        says="a request that has ended takes a second end",
        file="supervisor/request_stream.py",
        text="        if self.ended.is_set():\n            return\n\n        self._begin_again = None",
        planted="        self._begin_again = None",
        tests=_STREAM,
    ),
    Fault(
        name="death-after-the-end-is-told",
        says="a worker that dies after its answer gives that answer a second end",
        file="supervisor/request_stream.py",
        text="        if not self.ended.is_set():\n            self._end(error)",
        planted="        self._end(error)",
        tests=_STREAM,
    ),
    Fault(
        name="two-ends-from-the-worker",
        says="the worker says twice that a request has ended",
        file="gpu_worker/loop.py",
        text="        self._channel.send(terminal)\n",
        planted="        self._channel.send(terminal)\n        self._channel.send(terminal)\n",
        tests=("tests/gpu_worker/test_loop.py",),
    ),
    Fault(
        name="no-end-from-the-worker",
        says="the worker does not say that a cancelled request has ended",
        file="gpu_worker/loop.py",
        text="            self._finish(number, FinishReason.CANCELLED)",
        planted="            self._batch.leave(self._running.pop(number).request.request_id)",
        tests=("tests/gpu_worker/test_loop.py",),
    ),
    Fault(
        name="cancel-not-sent",
        says="the worker is not told that a client has left",
        file="supervisor/worker.py",
        text="self._channel.send(Cancel(request_id))",
        planted="pass",
        tests=(f"{_HOST}::test_a_client_that_leaves_while_decoding_frees_the_worker",),
    ),
    Fault(
        name="cancel-ignored-by-the-worker",
        says="the worker goes on with what nobody wants any more",
        file="gpu_worker/inbox.py",
        text="self._cancelled.append(request_id)",
        planted="pass",
        tests=("tests/gpu_worker/test_inbox.py", "tests/gpu_worker/test_loop.py"),
    ),
    Fault(
        name="deaf-worker-left-alone",
        says="a worker that does not stop after a cancel keeps the next one waiting",
        file="supervisor/settling.py",
        text="if not await _ends_within(stream, grace_s) and not",
        planted="if False and not",
        tests=(f"{_HOST}::test_a_deaf_worker_is_killed_after_the_bound_of_a_cancel",),
    ),
    Fault(
        name="load-that-died-not-tried-again",
        says="a load that died fails its request at once",
        file="supervisor/residency.py",
        text="LOAD_ATTEMPTS = 2",
        planted="LOAD_ATTEMPTS = 1",
        tests=(f"{_HOST}::test_a_load_that_dies_is_tried_once_more_and_then_told",),
    ),
    Fault(
        name="unbegun-request-not-tried-again",
        says="a worker that died while it was idle costs the next request",
        file="supervisor/request_stream.py",
        text="if isinstance(item, WorkerDied) and self._begin_again is not None:",
        planted="if False:",
        tests=(f"{_AGAIN}::test_a_request_that_a_dying_worker_has_not_begun_is_served_by_the_next",),
    ),
    Fault(
        name="begun-request-tried-again",
        says="a request whose answer the client has read in part begins anew",
        file="supervisor/request_stream.py",
        text="            return\n\n        self._begin_again = None\n\n        match message:",
        planted="            return\n\n        match message:",
        tests=_STREAM,
    ),
    Fault(
        name="load-that-nobody-wants-goes-on",
        says="a model is loaded to its end although the client that asked for it has left",
        file="supervisor/settling.py",
        text="elif not worker.is_usable or (worker.loaded is None and not self._turns.next_wants(model.model_id)):",
        planted="elif not worker.is_usable:",
        tests=(f"{_HOST}::test_a_load_that_nobody_waits_for_is_ended",),
    ),
    Fault(
        name="poison-prompt-never-refused",
        says="a prompt that ends each worker may do so for ever",
        file="supervisor/poison_prompts.py",
        text="            self._refused_until[key] = now + self._bounds.refused_s\n",
        planted="",
        tests=("tests/supervisor/test_poison_prompts.py",),
    ),
    Fault(
        name="poison-check-not-asked",
        says="nobody asks whether a prompt is refused before it is begun",
        file="supervisor/turn.py",
        text="        self._check_task(task)\n",
        planted="",
        tests=(
            "tests/supervisor/test_model_host_restarts.py::test_a_prompt_that_ended_two_workers_is_refused_and_others_are_not",
        ),
    ),
)
