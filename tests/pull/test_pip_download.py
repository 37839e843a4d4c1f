import pytest

from prism.pull.errors import DiskFull, DownloadFailed, MissingPip, NoNetwork, NotOnIndex, PullError, WrongHash
from prism.pull.pip_download import PinnedWheel, explain_failure

WHEEL = PinnedWheel("tiny_demo==0.1", "0" * 64, 10)

RETRIES = (
    "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by "
    "'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: "
    "[Errno -3] Temporary failure in name resolution')': /simple/tiny-demo/\n"
    "ERROR: Could not find a version that satisfies the requirement tiny_demo==0.1 (from versions: none)\n"
    "ERROR: No matching distribution found for tiny_demo==0.1\n"
)


@pytest.mark.parametrize(
    ("log", "kind", "words"),
    [
        ("/usr/bin/python: No module named pip\n", MissingPip, "run `/usr/bin/python -m ensurepip`"),
        (RETRIES, NoNetwork, "cannot be reached"),
        ("ERROR: No matching distribution found for tiny_demo==0.1\n", NotOnIndex, "does not have tiny_demo==0.1"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n", WrongHash, "another file"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", DiskFull, "room"),
        ("WARNING: old\nERROR: something new\n\n", DownloadFailed, "0.1: something new"),
        ("Traceback\nValueError: odd\n", DownloadFailed, "0.1: ValueError: odd"),
        ("", DownloadFailed, "it said nothing"),
    ],
)
def test_what_pip_says_becomes_one_clear_line(log: str, kind: type[PullError], words: str) -> None:
    error = explain_failure(log, WHEEL, "/usr/bin/python")

    assert type(error) is kind
    assert words in str(error)
    assert "\n" not in str(error)
