"""The client of the Ollama daemon: the only file here that knows HTTP. Opened by the server or a command, in its event loop.

A connection for each request: a daemon that was started anew has closed all kept ones, and a POST cannot be sent twice. No redirects, no
proxies of the environment, no cookies, no credentials. An answer that is left, by a client of ours or for an error, is closed at once:
that is how the daemon learns that nobody waits for its model any more.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import aiohttp
import msgspec
from aiohttp import hdrs

from prism.ollama.bounds import OllamaBounds
from prism.ollama.errors import (
    BadDaemonAnswer,
    DaemonCutShort,
    DaemonRefused,
    DaemonUnreachable,
)
from prism.ollama.lines import LineSplitter
from prism.ollama.waiting import Waiting
from prism.ollama.wire import error_text

_HEADERS = {hdrs.ACCEPT_ENCODING: "identity", hdrs.CONTENT_TYPE: "application/json", hdrs.USER_AGENT: "prism"}
_ENCODED_PLAINLY = ("", "identity")


class OllamaDaemon:
    """One daemon. url: its base URL. bounds: of time and size."""

    def __init__(self, url: str, bounds: OllamaBounds | None = None) -> None:
        self.url = url
        self.bounds = bounds or OllamaBounds()
        self._waiting = Waiting()
        self._session: aiohttp.ClientSession | None = None

    @contextlib.asynccontextmanager
    async def ask(self, path: str, body: object) -> AsyncIterator["DaemonAnswer"]:
        """POST JSON and give the answer once its status is known to be good. Raises OllamaError. The connection ends with the block."""
        self._waiting.begin()

        try:
            async with self._answer(hdrs.METH_POST, path, msgspec.json.encode(body), self.bounds.idle_s) as answer:
                yield answer
        finally:
            self._waiting.end()

    async def fetch(self, path: str, timeout_s: float) -> bytes:
        """GET one whole answer within the time. Raises OllamaError. Not counted among the requests that a drain waits for."""

        async def whole() -> bytes:
            async with self._answer(hdrs.METH_GET, path, None, timeout_s) as answer:
                return await answer.whole()

        return await self._waiting.wait(whole(), timeout_s, "its answer")

    def drain(self, timeout_s: float | None) -> None:
        """See `Waiting.drain`."""
        self._waiting.drain(timeout_s)

    async def wait_idle(self) -> None:
        """See `Waiting.wait_idle`."""
        await self._waiting.wait_idle()

    async def close(self) -> None:
        """End what runs, and all connections."""
        self._waiting.close()

        if self._session is not None:
            await self._session.close()

    @contextlib.asynccontextmanager
    async def _answer(
        self, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> AsyncIterator["DaemonAnswer"]:
        with _faults_translated(self.url):
            sending = self._open_session().request(method, self.url + path, data=body, allow_redirects=False)
            response = await self._waiting.wait(sending, timeout_s, "its answer")

        try:
            answer = DaemonAnswer(response, self._waiting, self.bounds)
            await answer.check()
            yield answer
        finally:
            response.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=self.bounds.connect_s, sock_connect=self.bounds.connect_s
                ),
                headers=_HEADERS,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )

        return self._session


class DaemonAnswer:
    """An answer that comes. Its lines are read by one caller; who stops reading makes the daemon wait."""

    def __init__(self, response: aiohttp.ClientResponse, waiting: Waiting, bounds: OllamaBounds) -> None:
        self._response = response
        self._waiting = waiting
        self._bounds = bounds
        self._splitter = LineSplitter(bounds.line_bytes)
        self._bytes = 0

    async def check(self) -> None:
        """Raise DaemonRefused for an error of the daemon, and BadDaemonAnswer for what no daemon sends."""
        status = self._response.status

        if status >= 400:
            raise DaemonRefused(status, error_text(await self._read_up_to(self._bounds.error_bytes)))

        if status != 200:
            raise BadDaemonAnswer(f"it answered with status {status}, which its API does not have")

        if self._response.headers.get(hdrs.CONTENT_ENCODING, "") not in _ENCODED_PLAINLY:
            raise BadDaemonAnswer("it sent a compressed answer, which nobody asked for")

    async def next_lines(self) -> list[bytes]:
        """Wait for a line and return all that are there; none only at the end of the answer. Raises OllamaError."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._bounds.idle_s

        while True:
            # The bound is for a line, not for a byte: a trickle of bytes is no sign of work.
            data = await self._read(max(0.0, deadline - clock()))

            if not data:
                self._splitter.feed(b"")
                return self._splitter.finish()

            if lines := self._splitter.feed(data):
                return lines

    async def whole(self) -> bytes:
        """Return the whole answer. Raises OllamaError."""
        pieces = []

        while data := await self._read(self._bounds.idle_s):
            pieces.append(data)

        return b"".join(pieces)

    async def _read_up_to(self, most_bytes: int) -> bytes:
        begun = b""

        while len(begun) < most_bytes and (data := await self._read(self._bounds.idle_s)):
            begun += data

        return begun[:most_bytes]

    async def _read(self, timeout_s: float) -> bytes:
        with _faults_translated(str(self._response.url)):
            data = await self._waiting.wait(self._response.content.readany(), timeout_s, "the next line")

        self._bytes += len(data)

        if self._bytes > self._bounds.answer_bytes:
            raise BadDaemonAnswer(f"it sent an answer of more than {self._bounds.answer_bytes} bytes")

        return data


@contextlib.contextmanager
def _faults_translated(url: str) -> Iterator[None]:
    """Turn the errors of the library into ours, which say to a user what happened."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise DaemonUnreachable(f"no connection to {url} could be made in time") from error
    except aiohttp.ClientConnectorError as error:
        raise DaemonUnreachable(f"no connection to {url} could be made: {error.strerror or error.os_error}") from error
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError) as error:
        raise DaemonCutShort("the connection ended before its answer did") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise BadDaemonAnswer("what answers there does not speak HTTP as a daemon does") from error
