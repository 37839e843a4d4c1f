"""The application on its address: opened by `prism.http.serve`, and by tests, so that both serve in the same way."""

import contextlib
import errno
import logging
from collections.abc import AsyncIterator

from prism.descriptors import descriptor_limit
from prism.exit_codes import ExitCode
from prism.http.app import make_runner
from prism.http.connection_bound import ConnectionBound, most_connections
from prism.http.listener import Listener, listen
from prism.http.protocol import Runner
from prism.http.services import Services
from prism.settings import ServeSettings

logger = logging.getLogger(__name__)


class CannotServe(Exception):
    """The address or the state folder cannot be used. exit_code tells whether trying again may help."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextlib.asynccontextmanager
async def open_server(services: Services) -> AsyncIterator[str]:
    """Serve while the block runs, and give the address as a URL. Raises CannotServe when the address cannot be had."""
    runner = make_runner(services)
    await runner.setup()

    try:
        listener = await _listen(runner, services.settings)

        try:
            yield _url(services.settings.host, listener)
        finally:
            await listener.close()
    finally:
        await runner.cleanup()


async def _listen(runner: Runner, settings: ServeSettings) -> Listener:
    place = f"{settings.host}:{settings.port}"
    bound = ConnectionBound(_most_connections(settings.max_connections))

    try:
        return await listen(settings.host, settings.port, runner.connect, bound, settings.send_timeout_s)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotServe(
                f"{place} is in use by another process; choose another --port", ExitCode.TEMPORARY
            ) from error

        raise CannotServe(f"cannot listen on {place}: {error.strerror or error}", ExitCode.CONFIGURATION) from error


def _most_connections(wanted: int) -> int:
    limit = descriptor_limit()
    most = most_connections(wanted, limit)

    if wanted > most:
        logger.warning(
            "at most %d connections are served, not %d: the limit of open files is %d (ulimit -n)", most, wanted, limit
        )

    return most


def _url(host: str, listener: Listener) -> str:
    # Port 0 lets the system choose; what it chose is in the socket.
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.port}"
