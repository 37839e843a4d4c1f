"""Nothing that we wrote breaks a rule, and every rule finds what is planted for it."""

import ast
from pathlib import Path

import pytest

from tests.advisories.banned import faults
from tests.advisories.rules import RULES

ROOT = Path(__file__).parents[2]
FOLDERS = ("prism", "supervisor", "gpu_worker", "ipc", "benchmarks", "tests")
BY_NAME = {rule.name: rule for rule in RULES}

# Rule, file, source with exactly one fault of that rule.
PLANTED = (
    ("object streams", "ipc/x.py", "import pickle"),
    ("object streams", "tests/x.py", "from multiprocessing import Process"),
    ("object streams", "supervisor/x.py", "import importlib\nimportlib.import_module('marshal')"),
    ("object streams", "ipc/x.py", "message = socket.recv_pyobj()"),
    ("object streams", "prism/x.py", "numpy.load(path, allow_pickle=True)"),
    ("torch", "prism/x.py", "import torch\nstate = torch.load(path)"),
    ("remote code", "prism/x.py", "load(name, trust_remote_code=True)"),
    ("remote code", "prism/x.py", "load(name, trust_remote_code=wanted)"),
    ("code from text", "prism/x.py", "eval(answer)"),
    ("code from text", "gpu_worker/x.py", "def f() -> None:\n    exec(answer)"),
    ("code from text", "prism/x.py", "import ast\nast.literal_eval(arguments)"),
    ("code from text", "prism/x.py", "from runpy import run_path"),
    ("code from text elsewhere", "tests/x.py", "eval('1')"),
    ("yaml", "prism/x.py", "import yaml\nyaml.load(text)"),
    ("xml", "prism/x.py", "from xml.etree import ElementTree"),
    ("shell", "prism/x.py", "subprocess.run(command, shell=True)"),
    ("shell", "tests/x.py", "subprocess.run(['ls'], shell=how)"),
    ("shell", "prism/x.py", "os.system(command)"),
    ("shell", "prism/x.py", "await asyncio.create_subprocess_shell(command)"),
    ("shell", "prism/x.py", "subprocess.run(f'ls {folder}')"),
    ("shell", "prism/x.py", "subprocess.Popen(args='ls -l')"),
    ("made-up names", "prism/x.py", "import tempfile\ntempfile.mktemp()"),
    ("archives", "prism/x.py", "archive.extractall(folder)"),
    ("archives", "prism/x.py", "shutil.unpack_archive(file, folder)"),
    ("archives", "prism/x.py", "import tarfile"),
    ("templates", "prism/x.py", "jinja2.Environment()"),
    ("templates", "prism/http/x.py", "from jinja2 import Template"),
    ("templates", "prism/x.py", "from jinja2.sandbox import SandboxedEnvironment"),
    ("templates", "prism/x.py", "environment.from_string(chat_template)"),
    ("tcp between processes", "ipc/x.py", "socket.bind('tcp://127.0.0.1:*')"),
    ("tcp between processes", "benchmarks/x.py", "socket.bind(f'tcp://{host}')"),
    ("all interfaces", "prism/x.py", "host: str = '0.0.0.0'"),
    ("all interfaces", "prism/x.py", "def serve(host: str = '::') -> None: ..."),
    ("all interfaces", "supervisor/x.py", "site = TCPSite(runner, '0.0.0.0')"),
    ("certificates", "prism/x.py", "client.get(url, verify=False)"),
    ("certificates", "prism/x.py", "session.get(url, ssl=False, allow_redirects=False)"),
    ("certificates", "prism/x.py", "context.verify_mode = ssl.CERT_NONE"),
    ("no timeout", "prism/x.py", "http.client.HTTPConnection(host, port)"),
    ("no timeout", "prism/x.py", "aiohttp.ClientSession()"),
    ("no timeout", "benchmarks/x.py", "urllib.request.urlopen(url)"),
    ("no timeout", "prism/x.py", "socket.create_connection(address)"),
    ("redirects", "prism/x.py", "import requests"),
    ("redirects", "prism/x.py", "await self._session.post(url, json=body)"),
    ("redirects", "prism/x.py", "await client.fetch(url, allow_redirects=True)"),
    ("guessable", "ipc/x.py", "import random\nsecret = random.randbytes(32)"),
    ("guessable", "prism/x.py", "name = uuid.uuid1()"),
    ("compared secret", "prism/x.py", "if given_token == self.secret: ..."),
    ("compared secret", "ipc/x.py", "is_right = message.secret != self._secret"),
    ("compared secret", "prism/x.py", "found = any(given == api_key for api_key in keys)"),
    ("weak digest", "prism/x.py", "hashlib.md5(wheel)"),
    ("open to all", "supervisor/x.py", "os.chmod(path, 0o666)"),
    ("open to all", "prism/x.py", "folder.mkdir(mode=0o777)"),
    ("open to all", "prism/x.py", "os.open(path, os.O_CREAT, 0o664)"),
    ("files by request", "prism/http/x.py", "open(request.match_info['id'])"),
    ("files by request", "prism/api/x.py", "content = Path(body.model)"),
    ("files by request", "prism/http/x.py", "text = model.path.read_text()"),
    ("files over HTTP", "prism/http/x.py", "app.router.add_static('/ui', folder)"),
    ("pages of private networks", "prism/http/x.py", "headers['Access-Control-Allow-Private-Network'] = 'true'"),
)

CLEAN = (
    ("prism/x.py", "import json\njson.loads(text)\nimport msgspec\nmsgspec.msgpack.decode(frame, type=Hello)"),
    ("prism/x.py", "subprocess.run(['ls', folder], shell=False)\nasyncio.create_subprocess_exec('ls', folder)"),
    ("prism/x.py", "import re\nre.compile('a')\npattern.match(text)"),
    ("prism/chat/template.py", "from jinja2.sandbox import ImmutableSandboxedEnvironment\nself.from_string(text)"),
    ("prism/x.py", "reachable = {'0.0.0.0': '127.0.0.1'}.get(host, host)"),
    ("prism/x.py", "await self._session.post(url, json=body, allow_redirects=False)"),
    ("prism/x.py", "aiohttp.ClientSession(timeout=bound)\nhttp.client.HTTPConnection(host, port, timeout=5)"),
    ("prism/x.py", "if not hmac.compare_digest(given, key.encode()): ...\nif token_id == 2: ..."),
    ("prism/x.py", "os.open(path, os.O_CREAT, 0o600)\nfolder.mkdir(mode=0o700)\nPath('/proc')"),
    ("supervisor/restart_policy.py", "import random"),
)


def written_files() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_that_we_wrote_breaks_a_rule(folder: str) -> None:
    files = [file for file in written_files() if file.startswith(f"{folder}/")]
    assert len(files) > 3
    assert [fault for file in files for fault in faults(file, (ROOT / file).read_text(encoding="utf-8"), RULES)] == []


@pytest.mark.parametrize(("rule", "file", "source"), PLANTED)
def test_a_planted_fault_is_found(rule: str, file: str, source: str) -> None:
    assert len(faults(file, source, [BY_NAME[rule]])) == 1


def test_no_rule_is_without_a_planted_fault() -> None:
    assert {name for name, _, _ in PLANTED} == set(BY_NAME)


@pytest.mark.parametrize(("file", "source"), CLEAN)
def test_what_is_allowed_is_no_fault(file: str, source: str) -> None:
    assert faults(file, source, RULES) == []


def test_a_home_is_a_file_that_is_there_and_needs_to_be_one() -> None:
    for rule in RULES:
        for home in rule.homes:
            files = [file for file in written_files() if Path(file).match(home)]
            assert any(list(rule.lines(_nodes(file))) for file in files), (rule.name, home)


def _nodes(file: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))))
