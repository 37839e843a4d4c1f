"""Makes real processes that speak as a worker and end. Each line on stdin is {"endpoint", "secret", "action", "count"}; a line on
stdout tells the process's id when it was made, and one more when it has ended. Actions:

words   Hello, count deltas, Finished, close, exit
kill    Hello, count deltas, a moment, SIGKILL to itself
mute    exit without a word

The processes are forked before ZeroMQ was used here, so that one costs milliseconds.
"""

import json
import os
import signal
import sys
import time

from ipc.messages import Delta, Finished, FinishReason, Hello
from ipc.worker_end import WorkerEnd


def speak(order: dict[str, str], count: int) -> None:
    lifeline, _ = os.pipe()
    channel = WorkerEnd(order["endpoint"], lifeline)
    channel.send(Hello(secret=bytes.fromhex(order["secret"]), generation=1, pid=os.getpid(), version="test"))

    for number in range(count):
        channel.send(Delta(request_id=1, text=f"{number} ", completion_tokens=number + 1))

    if order["action"] == "kill":
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)

    end = Finished(
        request_id=1,
        reason=FinishReason.STOP,
        prompt_tokens=1,
        completion_tokens=count,
        cached_tokens=0,
        ttft_sec=0.0,
        decode_tok_per_sec=0.0,
    )
    channel.send(end)
    channel.close()


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()

        if pid == 0:
            if order["action"] != "mute":
                speak(order, order["count"])

            os._exit(0)

        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        os.waitpid(pid, 0)
        sys.stdout.write("ended\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
