"""A server that is watched: what Python does in it, what it writes to its log, and the processes that it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.client import Client, body_of
from tests.contract.conftest import RAISING_TEMPLATE, TEMPLATE
from tests.raw_http import Reply, send, send_raw
from tests.served import serving, write_model

KEY = "key-of-the-operator"
SECRET = "secret-of-another-program"
# An operator's other secrets, as they lie in many environments.
OTHER_SECRETS = {
    "OPENAI_API_KEY": SECRET,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "GITHUB_TOKEN": SECRET,
    "PIP_INDEX_URL": f"https://user:{SECRET}@index.example/simple",
}
WITH_KEY = f"Authorization: Bearer {KEY}"


@dataclass(frozen=True, slots=True)
class Watched:
    """client: sends no key; `ask` does. folder: holds models, state, log and audit of the server."""

    client: Client
    folder: Path

    def ask(self, path: str, **fields: object) -> Reply:
        """Post the smallest valid body with these fields, and the key."""
        return self.client.post(path, body_of(path, None, **fields), WITH_KEY)

    def get(self, path: str, *headers: str) -> Reply:
        return send(self.client.base_url, "GET", path, WITH_KEY, *headers)

    def send_raw(self, data: bytes | str) -> Reply:
        return send_raw(self.client.base_url, data)

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text(encoding="utf-8")

    def events(self, *kinds: str) -> list[str]:
        """Return what the server's audit hooks were told, by kind."""
        lines = (self.folder / "audit").read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line.partition(" ")[0] in kinds]

    @property
    def worker_pid(self) -> int:
        return int(self.client.get("/health").json["worker"]["pid"])

    @property
    def front_pid(self) -> int:
        status = Path(f"/proc/{self.worker_pid}/status").read_text()
        return int(status.partition("PPid:")[2].split()[0])


@pytest.fixture(scope="package")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    write_model(folder, "stand-in", {"prompt_tokens": 7}, TEMPLATE)
    write_model(folder, "raising", template=RAISING_TEMPLATE)
    write_model(folder, "dying", {"at": {"load": "abort"}})
    (folder / "keys").write_text(KEY)
    (folder / "audit").touch()

    with serving(
        folder,
        preload="stand-in",
        program="tests.advisories.serve_audited",
        AUDIT_LOG=str(folder / "audit"),
        PRISM_API_KEY_FILE=str(folder / "keys"),
        PRISM_LOG_LEVEL="debug",
        **OTHER_SECRETS,
    ) as base_url:
        yield Watched(Client(base_url), folder)
