"""The rules of `banned.py`, in the order of docs/security.md."""

from tests.advisories.banned import (
    PRODUCT,
    Rule,
    calls,
    calls_without,
    command_in_one_text,
    compares_secret,
    either,
    gives,
    imports,
    listens_to_all,
    names,
    says,
    writes_for_all,
)

# They speak about the rules, in texts that must be there.
_OWN = ("tests/advisories/*.py",)
_HTTP_CALLS = ("get", "post", "put", "patch", "delete", "head", "options", "request", "ws_connect")

RULES = (
    Rule(
        "object streams",
        "what is read by these runs code of whoever wrote it",
        either(
            imports("pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "multiprocessing", "_pickle"),
            names("recv_pyobj", "send_pyobj", "recv_serialized", "send_serialized", "read_pickle"),
            gives("allow_pickle", False),
        ),
    ),
    Rule("torch", "its files are object streams", imports("torch", "safetensors.torch")),
    Rule("remote code", "a model never brings code", gives("trust_remote_code", False)),
    Rule(
        "code from text",
        "no text becomes code",
        either(
            calls("eval", "exec", "compile", "builtins.eval", "builtins.exec", "ast.literal_eval", "literal_eval"),
            imports("code", "runpy", "codeop"),
        ),
        PRODUCT,
    ),
    Rule(
        "code from text elsewhere",
        "no text becomes code",
        calls("eval", "exec", "*.eval", "*.exec"),
        ("benchmarks/*", "tests/*"),
    ),
    Rule("yaml", "yaml makes objects of any class", either(imports("yaml", "ruamel")), PRODUCT),
    Rule("xml", "a few hundred bytes of XML become gigabytes", imports("xml", "lxml", "xmlrpc"), PRODUCT),
    Rule(
        "shell",
        "no command goes through a shell",
        either(
            gives("shell", False),
            calls("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
            names("create_subprocess_shell", "subprocess_shell"),
            command_in_one_text,
        ),
    ),
    Rule(
        "made-up names", "the name may be taken by another before the file is made", calls("tempfile.mktemp", "mktemp")
    ),
    Rule(
        "archives",
        "names in an archive may lead anywhere",
        either(calls("*.extractall", "*.extract", "shutil.unpack_archive", "unpack_archive"), imports("tarfile")),
        PRODUCT,
    ),
    Rule(
        "templates",
        "only the immutable sandbox renders templates of others",
        either(
            calls("*.Environment", "*.NativeEnvironment", "*.SandboxedEnvironment", "*.Template", "*.from_string"),
            calls("Environment", "NativeEnvironment", "SandboxedEnvironment"),
            imports(
                "jinja2.Environment", "jinja2.Template", "jinja2.nativetypes", "jinja2.environment", "mako", "chevron"
            ),
            imports("jinja2.sandbox.SandboxedEnvironment"),
        ),
        PRODUCT,
        homes=("prism/chat/template.py",),
    ),
    Rule(
        "tcp between processes",
        "processes speak over ipc sockets",
        says("tcp://", "inproc://", "pgm://", "udp://"),
        homes=_OWN,
    ),
    Rule("all interfaces", "whoever wants others to connect says so", listens_to_all, (*PRODUCT, "benchmarks/*")),
    Rule(
        "certificates",
        "certificates are checked",
        either(
            gives("verify", True),
            gives("ssl", None),
            gives("check_hostname", True),
            names("CERT_NONE", "_create_unverified_context", "disable_warnings"),
        ),
        (*PRODUCT, "benchmarks/*"),
    ),
    Rule(
        "no timeout",
        "every wait for another machine has a bound",
        either(
            calls_without(
                "timeout", "*HTTPConnection", "*HTTPSConnection", "*urlopen", "*.ClientSession", "ClientSession"
            ),
            calls_without("timeout", "socket.create_connection", "requests.*", "httpx.*"),
        ),
        (*PRODUCT, "benchmarks/*"),
    ),
    Rule(
        "redirects",
        "another server is never where a server sends us: key and address would go along",
        either(
            imports("requests", "httpx", "urllib3", "urllib.request"),
            gives("allow_redirects", False),
            gives("follow_redirects", False),
            calls_without("allow_redirects", *(f"*session.{name}" for name in _HTTP_CALLS)),
        ),
        PRODUCT,
    ),
    Rule(
        "guessable",
        "what must not be guessed comes from `secrets`",
        either(imports("random", "uuid.uuid1"), calls("uuid.uuid1")),
        PRODUCT,
        homes=("supervisor/restart_policy.py",),  # varies a pause
    ),
    Rule("compared secret", "secrets are compared by hmac.compare_digest", compares_secret, PRODUCT),
    Rule(
        "weak digest",
        "what is pinned by it can be forged",
        calls("hashlib.md5", "hashlib.sha1", "hashlib.new"),
        PRODUCT,
    ),
    Rule("open to all", "files of ours are not written by others", writes_for_all, PRODUCT),
    Rule(
        "files by request",
        "what handles a client's words opens no file and makes no path of them",
        either(
            calls(
                "open", "io.open", "os.open", "os.listdir", "os.scandir", "os.stat", "os.path.*", "Path", "pathlib.Path"
            ),
            names("read_text", "read_bytes", "write_text", "write_bytes"),
        ),
        ("prism/api/*", "prism/http/*"),
        # The server's start: where the driver is, and the folder of its sockets.
        homes=("prism/http/serve.py",),
    ),
    Rule(
        "files over HTTP",
        "no route gives a file",
        names("add_static", "FileResponse", "StaticResource", "static"),
        PRODUCT,
    ),
    Rule(
        "pages of private networks",
        "a browser is never told that a page of the internet may come in",
        says("Access-Control-Allow-Private-Network", "Access-Control-Allow-Credentials"),
        homes=_OWN,
    ),
)
