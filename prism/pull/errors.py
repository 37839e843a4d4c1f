"""What can go wrong when a model is brought to this machine. Every message is one line for the user, and says what to do.

PullError
├── MissingExtra      the libraries that convert a model are not installed
├── MissingPip        this environment has no pip
├── NoNetwork         the package index cannot be reached
├── NotOnIndex        the index answers, but does not have the file
├── WrongHash         what came is not the file that was pinned
├── DownloadFailed    pip failed for another reason, or what it brought cannot be read
├── DiskFull          there is no room for the model
├── NotWritable       the models folder cannot be written
└── ForeignFolder     the place is taken by a model that was not pulled from here
"""


class PullError(Exception):
    """A model could not be brought to this machine; nothing of the attempt is left behind."""


class MissingExtra(PullError):
    """The libraries that convert a model are not installed."""


class MissingPip(PullError):
    """This environment has no pip."""


class NoNetwork(PullError):
    """The package index cannot be reached."""


class NotOnIndex(PullError):
    """The index answers, but does not have the file."""


class WrongHash(PullError):
    """What came is not the file that was pinned."""


class DownloadFailed(PullError):
    """pip failed for another reason, or what it brought cannot be read."""


class DiskFull(PullError):
    """There is no room for the model."""


class NotWritable(PullError):
    """The models folder cannot be written."""


class ForeignFolder(PullError):
    """The place is taken by a model that was not pulled from here; it is left alone."""
