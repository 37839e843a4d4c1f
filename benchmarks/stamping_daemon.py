"""A daemon with the native API of Ollama that costs next to nothing: each token is the time at which it was sent.

As a program: `python -m benchmarks.stamping_daemon`. Prints its port, and serves until its standard input ends. A chat gets as many tokens
as `num_predict` says; those of the model `paced` come every 5 ms, those of any other as fast as they are taken.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

_PACE_S = 0.005
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        body = await _body(reader)
        writer.write(_HEAD)

        for _ in range(body["options"]["num_predict"]):
            writer.write(
                _line({"message": {"role": "assistant", "content": f"{time.monotonic():.6f} "}, "done": False})
            )
            await writer.drain()

            if body["model"] == "paced":
                await asyncio.sleep(_PACE_S)

        count = body["options"]["num_predict"]
        last = {"done": True, "done_reason": "length", "prompt_eval_count": 1, "eval_count": count}
        writer.write(_line({"message": {"role": "assistant", "content": ""}, **last}) + b"0\r\n\r\n")
        await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _body(reader: asyncio.StreamReader) -> dict[str, Any]:  # Any: JSON of a client that is ours
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    body: dict[str, Any] = json.loads(await reader.readexactly(int(length.split(b":")[1])))
    return body


def _line(value: object) -> bytes:
    data = json.dumps(value).encode() + b"\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)

    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextlib.contextmanager
def stamping_daemon() -> Iterator[int]:
    """Run the program above; give its port."""
    command = [sys.executable, "-m", "benchmarks.stamping_daemon"]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


if __name__ == "__main__":
    asyncio.run(_main())
