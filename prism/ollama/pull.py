"""Lets the Ollama daemon bring a model to its machine, and tells how far it is. Called by `prism pull`, in an event loop of its own."""

from collections.abc import Callable
from typing import Final

import msgspec

from prism.ollama.daemon import OllamaDaemon
from prism.ollama.errors import DaemonCutShort
from prism.ollama.wire import PullLine, decoded

# As the function that shows it takes it: the step, how much of it is done, and how much there is.
Report = Callable[[str, int, int | None], None]

_LINE = msgspec.json.Decoder(PullLine)
_SUCCESS: Final = "success"
_DIGEST_CHARS: Final = 12
_MAX_STEP_CHARS: Final = 80


async def pull_model(daemon: OllamaDaemon, name: str, report: Report) -> None:
    """Return when the daemon has the model. Raises OllamaError; the daemon keeps what it has of the files for a next time.

    Ended by Ctrl+C the connection closes, and with it the daemon's download.
    """
    is_done = False

    # Older daemons know the second name only.
    async with daemon.ask("/api/pull", {"model": name, "name": name, "stream": True}) as answer:
        while lines := await answer.next_lines():
            for line in lines:
                told = decoded(line, _LINE)
                is_done = is_done or told.status == _SUCCESS
                _report(told, report)

    if not is_done:
        raise DaemonCutShort("the connection ended before the model was whole")


def _report(told: PullLine, report: Report) -> None:
    if told.digest and told.total > 0:
        # Two files are told apart by the beginning of their digest, as the daemon's own command does.
        digest = told.digest.rpartition(":")[2][:_DIGEST_CHARS]
        report(f"pulling {_plain(digest)}", min(max(told.completed, 0), told.total), told.total)
    elif told.status and told.status != _SUCCESS and not told.digest:
        report(_plain(told.status), 0, None)


def _plain(text: str) -> str:
    """Return the text without what a terminal, or the library that draws on it, would take for a command."""
    return "".join(character for character in text if character.isprintable() and character not in "[]")[
        :_MAX_STEP_CHARS
    ]
