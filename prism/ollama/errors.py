"""What can go wrong with the Ollama daemon. Raised in this package, shown by the command line, turned into statuses by `prism.http`.

OllamaError
├── DaemonUnreachable   no connection can be made
├── DaemonRefused       the daemon answered with an error of its own
├── DaemonSilent        nothing came for too long
├── DaemonCutShort      the connection ended before the answer did
├── BadDaemonAnswer     what came is not what the API has at this place
└── AnswersAreCut       this server ends, and with it what it asked of the daemon

Every message is one sentence for a user.
"""


class OllamaError(Exception):
    """The daemon could not answer."""


class DaemonUnreachable(OllamaError):
    """No connection can be made."""


class DaemonRefused(OllamaError):
    """The daemon answered with an error.

    status: of its answer; 200 for an error inside an answer that had begun. text: its own words; None when it had none in its own form,
    so that it may not be an Ollama daemon at all.
    """

    def __init__(self, status: int, text: str | None) -> None:
        super().__init__(text or f"it answered with status {status} and no reason")
        self.status = status
        self.text = text


class DaemonSilent(OllamaError):
    """Nothing came for too long."""


class DaemonCutShort(OllamaError):
    """The connection ended before the answer did."""


class BadDaemonAnswer(OllamaError):
    """What came is not what the API has at this place."""


class AnswersAreCut(OllamaError):
    """This server ends, and with it what it asked of the daemon."""
