"""The stand-in with worse manners: each of its words is well formed, but not at that time. More actions for `at`:

second-hello    say Hello once more
second-loaded   say Loaded once more
hang-up         close the channel and live on
burst-and-exit:N  say N tokens and Finished in one go, and end at once
fail-then-stay  say LoadFailed, close the channel and live on

and one more key: die_unbegun, which ends the process before it says a word about the request: "always", or the path of a file that is
removed on the way, so that it happens once.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from ipc.messages import Delta, Device, FinishReason, Generate, Hello, Loaded, LoadFailCode, LoadFailed
from tests import stand_in_worker


class RudeWorker(stand_in_worker.StandIn):
    """Finds its actions as the stand-in does."""

    def _generate(self, request: Generate) -> Iterator[None]:
        when = self._script.get("die_unbegun")

        if when == "always" or (when is not None and Path(when).exists()):
            if when != "always":
                Path(when).unlink()

            os.kill(os.getpid(), signal.SIGKILL)

        return super()._generate(request)

    def _do_second_hello(self, _: str, __: int) -> None:
        hello = Hello(secret=self._spec.secret, generation=self._spec.generation, pid=os.getpid(), version="rude")
        self._channel.send(hello)

    def _do_second_loaded(self, _: str, __: int) -> None:
        loaded = Loaded(
            device=Device.CPU, fallback_reason=None, context_length=None, load_sec=0.0, engine_version="rude"
        )
        self._channel.send(loaded)

    def _do_hang_up(self, _: str, __: int) -> None:
        self._channel.close()
        signal.pause()

    def _do_burst_and_exit(self, count: str, request_id: int) -> None:
        for number in range(int(count)):
            self._channel.send(Delta(request_id=request_id, text="a", completion_tokens=number + 1))

        self._end(request_id, FinishReason.STOP, 1, int(count))
        self._channel.close()
        os._exit(0)

    def _do_fail_then_stay(self, _: str, __: int) -> None:
        self._channel.send(LoadFailed(code=LoadFailCode.OTHER, message="rude words"))
        self._channel.close()
        signal.pause()


if __name__ == "__main__":
    stand_in_worker.StandIn = RudeWorker  # type: ignore[misc]  # its main makes whatever bears this name
    stand_in_worker.main(sys.argv[1:])
