"""A worker without an engine: speaks the messages of `ipc` over a real channel in a real process, and misbehaves on demand.

Run as `python stand_in_worker.py --launch-fd N`, like the real worker, or with `--parent-pid P` ahead of its model. How it behaves is read
from `stand_in.json` in the model folder, and for one request from a last prompt line `@stand-in {json}`, which goes over the folder's
values. Keys:

text            list of pieces, one token each (default: "w0 ", "w1 ", …, as many as max_tokens but at most 16)
echo            answer with what was asked instead of text: base64 of {"prompt", "max_tokens", "sampling", "reuse"} as JSON
reason          the finish reason of an answer that came to its end ("stop", "length", "loop")
delay_s         time between two tokens
prefill         number of prefill slices, each of prefill_s
load_s          time that loading takes; load_error: {"code", "message"} makes it fail
prompt_tokens   what Started says; reject: {"code", "message"}; fail: {"code", "message", "is_fatal"} after `fail_after` tokens
at              {phase: action}; phases: start, hello, load, loaded, started, prefill, token:N, before-end, after-end
                actions: "kill" (SIGKILL to itself), "segv", "abort", "exit:N", "stop" (SIGSTOP), "sleep" (for ever, deaf to messages),
                "gil" (sleep for ever in native code that keeps the interpreter lock), "burn:SECONDS" (compute),
                "oom:PATH" (count one more in a file of the kernel's form, and SIGKILL), "garbage" (send bytes that are no message),
                "double-end", "foreign", "take:MIB" (take memory for good),
                "flood" (1 MB to stderr), "gate:PATH" (open a FIFO for reading: waits until a test opens it)
ignore_term     leave SIGTERM without effect
outlives        live on when the front ends
grandchild      start a child that ignores SIGTERM
device, fallback_reason, context_length   what Loaded says
parallel        how many requests it works on at a time, a token of each in turn; no more than the launch spec allows
"""

import argparse
import base64
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ipc.errors import ChannelClosed
from ipc.launch_spec import LaunchSpec, read_launch_spec
from ipc.messages import (
    Cancel,
    Delta,
    Device,
    FailCode,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Hello,
    Loaded,
    LoadFailCode,
    LoadFailed,
    Phase,
    Progress,
    RejectCode,
    Rejected,
    Started,
)
from ipc.worker_end import WorkerEnd

# A made-up script of a made-up worker: its values come from JSON, so they are of any type.
Script = dict[str, Any]


class StandIn:
    """One stand-in worker."""

    def __init__(self, spec: LaunchSpec, channel: WorkerEnd, script: Script) -> None:
        self._spec = spec
        self._channel = channel
        self._folder_script = script
        self._script = script
        self._waiting: list[Generate] = []
        self._cancelled: set[int] = set()
        self._running: dict[int, tuple[Script, Iterator[None]]] = {}
        self._parallel = min(script.get("parallel", 1), spec.parallel)

    def run(self) -> None:
        self._at("start")
        hello = Hello(secret=self._spec.secret, generation=self._spec.generation, pid=os.getpid(), version="stand-in")
        self._channel.send(hello)
        self._at("hello")
        self._load()

        while True:
            self._look(None if not self._running and not self._waiting else 0)

            while self._waiting and len(self._running) < self._parallel:
                self._begin(self._waiting.pop(0))

            for request_id in list(self._running):
                self._go_on(request_id)

    def _begin(self, request: Generate) -> None:
        self._script = self._folder_script | _script_of(request.prompt)
        self._running[request.request_id] = (self._script, self._generate(request))

    def _go_on(self, request_id: int) -> None:
        """Work on one request, up to its next token."""
        self._script, work = self._running[request_id]

        if next(work, self) is self:
            del self._running[request_id]

        self._script = self._folder_script

    def _load(self) -> None:
        self._channel.send(Progress(phase=Phase.LOAD))
        self._at("load")
        time.sleep(self._script.get("load_s", 0))

        if (error := self._script.get("load_error")) is not None:
            self._channel.send(LoadFailed(code=LoadFailCode(error["code"]), message=error["message"]))
            self._channel.close()
            sys.exit(3)

        loaded = Loaded(
            device=Device("cpu" if self._spec.no_cuda_reason else self._script.get("device", "cpu")),
            fallback_reason=self._script.get("fallback_reason", self._spec.no_cuda_reason),
            context_length=self._script.get("context_length"),
            load_sec=0.0,
            engine_version="stand-in",
            parallel=self._parallel,
        )
        self._channel.send(loaded)
        self._at("loaded")

    def _generate(self, request: Generate) -> Iterator[None]:
        prompt_tokens = self._script.get("prompt_tokens", len("".join(request.prompt).split()))

        if (reject := self._script.get("reject")) is not None:
            self._channel.send(
                Rejected(request_id=request.request_id, code=RejectCode(reject["code"]), message=reject["message"])
            )
            return

        self._channel.send(
            Started(request_id=request.request_id, prompt_tokens=prompt_tokens, max_tokens=request.max_tokens)
        )
        self._at("started", request.request_id)

        if self._prefill(request.request_id):
            yield from self._decode(request, prompt_tokens)

    def _prefill(self, request_id: int) -> bool:
        slices = self._script.get("prefill", 0)

        for number in range(slices):
            self._channel.send(Progress(phase=Phase.PREFILL, request_id=request_id, done=number, total=slices))
            self._at("prefill", request_id)
            time.sleep(self._script.get("prefill_s", 0))

            if self._is_cancelled(request_id):
                self._end(request_id, FinishReason.CANCELLED, 0, 0)
                return False

        return True

    def _decode(self, request: Generate, prompt_tokens: int) -> Iterator[None]:
        pieces = [_echo_of(request)] if self._script.get("echo") else self._script.get("text")
        pieces = pieces or [f"w{n} " for n in range(min(16, request.max_tokens))]
        reason = FinishReason(self._script.get("reason", "stop"))
        reason = reason if len(pieces) <= request.max_tokens else FinishReason.LENGTH
        fail = self._script.get("fail")
        count = 0

        for text in pieces[: request.max_tokens]:
            if self._is_cancelled(request.request_id):
                reason = FinishReason.CANCELLED
                break

            if fail is not None and count >= self._script.get("fail_after", 0):
                self._channel.send(
                    Failed(
                        request_id=request.request_id,
                        code=FailCode(fail["code"]),
                        message=fail["message"],
                        is_fatal=fail["is_fatal"],
                    )
                )
                return

            time.sleep(self._script.get("delay_s", 0))
            count += 1

            if text:
                self._channel.send(Delta(request_id=request.request_id, text=text, completion_tokens=count))

            self._at(f"token:{count}", request.request_id)
            yield

        self._at("before-end", request.request_id)
        self._end(request.request_id, reason, prompt_tokens, count)
        self._at("after-end", request.request_id)

    def _end(self, request_id: int, reason: FinishReason, prompt_tokens: int, count: int) -> None:
        finished = Finished(
            request_id=request_id,
            reason=reason,
            prompt_tokens=prompt_tokens,
            completion_tokens=count,
            cached_tokens=0,
            ttft_sec=0.25,
            decode_tok_per_sec=50.0,
        )
        self._channel.send(finished)

    def _is_cancelled(self, request_id: int) -> bool:
        self._look(0)
        return request_id in self._cancelled

    def _look(self, timeout_ms: int | None) -> None:
        message = self._channel.receive(timeout_ms)

        if isinstance(message, Generate):
            self._waiting.append(message)
        elif isinstance(message, Cancel):
            self._cancelled.add(message.request_id)

    def _at(self, phase: str, request_id: int = 0) -> None:
        action: str | None = self._script.get("at", {}).get(phase)

        if action is None:
            return

        name, _, argument = action.partition(":")

        if name != "gate":
            # ZeroMQ cannot say when its thread has handed everything to the kernel, and what follows may end this process.
            time.sleep(0.05)

        misbehave = getattr(self, f"_do_{name.replace('-', '_')}")
        misbehave(argument, request_id)

    def _do_kill(self, _: str, __: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _do_oom(self, path: str, __: int) -> None:
        # In the kernel's order: it counts first.
        count = int(Path(path).read_text().split()[-1])
        Path(path).write_text(f"low 0\noom 3\noom_kill {count + 1}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def _do_segv(self, _: str, __: int) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def _do_abort(self, _: str, __: int) -> None:
        sys.stderr.write("terminate called after throwing an instance of 'made_up'\n")
        sys.stderr.flush()
        os.abort()

    def _do_exit(self, status: str, __: int) -> None:
        sys.stderr.write("made-up last words\n")
        sys.stderr.flush()
        os._exit(int(status))

    def _do_stop(self, _: str, __: int) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def _do_sleep(self, _: str, __: int) -> None:
        signal.pause()

    def _do_gil(self, _: str, __: int) -> None:
        ctypes.PyDLL(None).pause()

    def _do_burn(self, seconds: str, __: int) -> None:
        until = time.monotonic() + float(seconds)

        while time.monotonic() < until:
            pass

    def _do_garbage(self, _: str, __: int) -> None:
        self._channel._socket.send(b"\xff not a message")

    def _do_double_end(self, _: str, request_id: int) -> None:
        self._end(request_id, FinishReason.STOP, 0, 0)

    def _do_foreign(self, _: str, request_id: int) -> None:
        self._channel.send(Delta(request_id=request_id + 1000, text="foreign", completion_tokens=1))

    def _do_flood(self, _: str, __: int) -> None:
        sys.stderr.write(("flood " * 13 + "\n") * 13_000)
        sys.stderr.flush()

    def _do_take(self, size_mb: str, __: int) -> None:
        self._taken = b"x" * (int(size_mb) << 20)

    def _do_gate(self, path: str, __: int) -> None:
        Path(path).read_bytes()


def _echo_of(request: Generate) -> str:
    """Text that no reader of answers can take for a tag, a call or a stop string."""
    sampling = msgspec.to_builtins(request.sampling)
    asked = {
        "prompt": "".join(request.prompt),
        "max_tokens": request.max_tokens,
        "sampling": sampling,
        "reuse": msgspec.to_builtins(request.reuse),
    }
    return base64.b64encode(json.dumps(asked).encode()).decode()


def _script_of(prompt: tuple[str, ...]) -> Script:
    for line in reversed("".join(prompt).splitlines()):
        _, mark, text = line.partition("@stand-in ")

        if mark:
            script, _ = json.JSONDecoder().raw_decode(text)
            assert isinstance(script, dict)
            return script

    return {}


def main(arguments: Sequence[str]) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    parser = argparse.ArgumentParser()
    parser.add_argument("--launch-fd", type=int, required=True)
    parser.add_argument("--parent-pid", type=int)
    parsed = parser.parse_args(arguments)
    launch_fd = parsed.launch_fd

    if parsed.parent_pid is not None and os.getppid() != parsed.parent_pid:
        sys.exit(99)

    spec = read_launch_spec(launch_fd)

    if os.getppid() != spec.parent_pid:
        sys.exit(99)

    path = Path(spec.model_dir) / "stand_in.json"
    script = json.loads(path.read_text()) if path.exists() else {}

    if script.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    if script.get("grandchild"):
        grandchild = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", grandchild], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()

    if script.get("outlives"):
        ctypes.CDLL(None).prctl(1, 0)

    channel = WorkerEnd(spec.endpoint, launch_fd)

    try:
        StandIn(spec, channel, script).run()
    except ChannelClosed:
        channel.close()


if __name__ == "__main__":
    main(sys.argv[1:])
