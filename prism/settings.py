"""What the operator decided, read once: flags before the environment before the file that PRISM_ENV_FILE names.

The only file that reads the environment. Called by the command line, which passes the frozen result on. A flag and its
variable follow one rule (`prism.setting_values`); all values that break a rule are told together. A blank variable
counts as not set. Blocks for reading the env file and the key file.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ipc.messages import DeviceChoice
from prism import setting_values as read
from prism.ollama.address import DEFAULT_URL, daemon_url
from prism.setting_source import SettingSource
from prism.setting_values import LogLevel, TemplateMode

DEFAULT_PORT = 5272


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPaths:
    """Where models are. All absolute; none needs to exist.

    state_dir: Prism's own files: the load lock, the residents' records, the downloaded models.
    model_dirs: where models are looked for, in this order.
    download_dir: where a new model is put; one of model_dirs.
    """

    state_dir: Path
    model_dirs: tuple[Path, ...]
    download_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeFlags:
    """The flags of `prism serve` as they were typed; None and empty for what was not given."""

    host: str | None = None
    port: str | None = None
    device: str | None = None
    model: str | None = None
    api_key: tuple[str, ...] = field(default=(), repr=False)
    api_key_file: str | None = None
    cors_origin: tuple[str, ...] = ()
    queue_timeout: str | None = None
    max_queue: str | None = None
    max_connections: str | None = None
    header_timeout: str | None = None
    send_timeout: str | None = None
    sse_ping: str | None = None
    prefill_chunk: str | None = None
    parallel: str | None = None
    kv_slots: str | None = None
    spare_worker: str | None = None
    log_level: str | None = None
    allows_special_tokens: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Everything that `prism serve` needs to know. Times are in seconds, memory in MiB.

    runtime_dir: where the service manager or the login session keeps sockets; None where neither names a folder.
    notify_socket: where systemd listens, a path or `@name`; None when it does not.
    watchdog_s: systemd ends a server that is silent for so long; None when it does not watch this process.
    port: 0 lets the system choose.
    preload_model: a model's name as clients write it, to be loaded before the first request; None for no such model.
    api_keys: any one of them opens the server; empty when it is open to all who reach it.
    cors_origins: as browsers send them; `*` for every origin.
    queue_timeout_s, max_queue, header_timeout_s, send_timeout_s, sse_ping_s: 0 means without a bound, or never.
    max_connections: 0 leaves it to the server.
    header_timeout_s: for the headers of a request. send_timeout_s: how long a client may take nothing of its answer.
    prefill_chunk: most tokens that the engine takes in one call; 0 means the whole prompt.
    parallel: most requests at the same time, for a model that was made for several.
    kv_slots: finished requests that a model remembers, so that the next turn of a conversation begins at once; 0 is none.
    kv_memory_mb: most memory of all of them.
    has_spare_worker: a process waits for the next load, so that it begins sooner.
    threads: of the engine's CPU work; None leaves the choice to the engine.
    event_log: where a line is added for each thing that happens to a turn, a worker or a request; None for nowhere.
    ollama_url: base URL of the Ollama daemon, whether or not one runs.
    allows_special_tokens: text of control tokens in a client's message acts as the token instead of staying text.
    """

    state_dir: Path
    model_dirs: tuple[Path, ...]
    runtime_dir: Path | None = None
    notify_socket: str | None = None
    watchdog_s: float | None = None
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    device: DeviceChoice = DeviceChoice.AUTO
    preload_model: str | None = None
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    cors_origins: tuple[str, ...] = ()
    queue_timeout_s: float = 300.0
    max_queue: int = 8
    max_connections: int = 0
    header_timeout_s: float = 10.0
    send_timeout_s: float = 30.0
    sse_ping_s: float = 15.0
    prefill_chunk: int = 128
    parallel: int = 1
    kv_slots: int = 4
    kv_memory_mb: float = 1024.0
    has_spare_worker: bool = False
    threads: int | None = None
    has_loop_guard: bool = True
    template_mode: TemplateMode = TemplateMode.AUTO
    allows_special_tokens: bool = False
    ram_reserve_mb: float = 2048.0
    vram_reserve_mb: float = 1536.0
    worker_growth_mb: float = 4096.0
    has_resource_check: bool = True
    has_load_lock: bool = True
    load_timeout_s: float = 120.0
    log_level: LogLevel = LogLevel.INFO
    event_log: Path | None = None
    ollama_url: str = DEFAULT_URL


def load_serve_settings(
    flags: ServeFlags, environ: Mapping[str, str] | None = None
) -> tuple[ServeSettings, tuple[str, ...]]:
    """Return the settings, and a sentence for each PRISM_ variable that nothing reads. Raises SettingsError.

    environ: the process's own when None.
    """
    source = SettingSource(os.environ if environ is None else environ)
    settings = _with_engine_settings(_http_settings(_model_paths(source), source, flags), source, flags)
    source.raise_problems()
    return settings, source.warnings()


def load_model_paths(environ: Mapping[str, str] | None = None) -> ModelPaths:
    """Return where models are, for commands that need no more. Raises SettingsError."""
    source = SettingSource(os.environ if environ is None else environ)
    paths = _model_paths(source)
    source.raise_problems()
    return paths


def load_ollama_url(environ: Mapping[str, str] | None = None) -> str:
    """Return the base URL of the Ollama daemon, for commands that need no more. Raises SettingsError."""
    source = SettingSource(os.environ if environ is None else environ)
    url = _ollama_url(source)
    source.raise_problems()
    return url


def load_server_url(flag: str | None, environ: Mapping[str, str] | None = None) -> str:
    """Return the base URL of the server that client commands talk to. Raises SettingsError.

    Without --url and PRISM_BASE_URL it is the one that `prism serve` would listen on in this environment.
    """
    source = SettingSource(os.environ if environ is None else environ)
    host = source.value("PRISM_HOST", read.host, "127.0.0.1")
    port = source.value("PRISM_PORT", read.port_number, DEFAULT_PORT)
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    local = f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port or DEFAULT_PORT}/v1"
    url = source.value("PRISM_BASE_URL", read.base_url, local, "--url", flag)
    source.raise_problems()
    return url


_seconds = read.non_negative("seconds")
_megabytes = read.non_negative("megabytes")


def _http_settings(paths: ModelPaths, source: SettingSource, flags: ServeFlags) -> ServeSettings:
    value = source.value
    base = ServeSettings(state_dir=paths.state_dir, model_dirs=paths.model_dirs)

    return replace(
        base,
        runtime_dir=_runtime_dir(source),
        notify_socket=_notify_socket(source),
        watchdog_s=_watchdog_s(source),
        host=value("PRISM_HOST", read.host, base.host, "--host", flags.host),
        port=value("PRISM_PORT", read.port_number, base.port, "--port", flags.port),
        api_keys=_api_keys(source, flags),
        cors_origins=_cors_origins(source, flags),
        queue_timeout_s=value(
            "PRISM_QUEUE_TIMEOUT", _seconds, base.queue_timeout_s, "--queue-timeout", flags.queue_timeout
        ),
        max_queue=value("PRISM_MAX_QUEUE", read.whole_number(0), base.max_queue, "--max-queue", flags.max_queue),
        max_connections=value(
            "PRISM_MAX_CONNECTIONS",
            read.whole_number(0),
            base.max_connections,
            "--max-connections",
            flags.max_connections,
        ),
        header_timeout_s=value(
            "PRISM_HEADER_TIMEOUT", _seconds, base.header_timeout_s, "--header-timeout", flags.header_timeout
        ),
        send_timeout_s=value("PRISM_SEND_TIMEOUT", _seconds, base.send_timeout_s, "--send-timeout", flags.send_timeout),
        sse_ping_s=value("PRISM_SSE_PING", _seconds, base.sse_ping_s, "--sse-ping", flags.sse_ping),
        ollama_url=_ollama_url(source),
        log_level=value("PRISM_LOG_LEVEL", read.one_of(LogLevel), base.log_level, "--log-level", flags.log_level),
    )


def _with_engine_settings(base: ServeSettings, source: SettingSource, flags: ServeFlags) -> ServeSettings:
    value = source.value
    allows_special_tokens = value("PRISM_ALLOW_SPECIAL_TOKENS", read.switch, base.allows_special_tokens)

    return replace(
        base,
        device=value("PRISM_DEVICE", read.device_choice, base.device, "--device", flags.device),
        preload_model=value("PRISM_MODEL", read.model_name, None, "--model", flags.model),
        prefill_chunk=value(
            "PRISM_PREFILL_CHUNK", read.prefill_chunk, base.prefill_chunk, "--prefill-chunk", flags.prefill_chunk
        ),
        parallel=value("PRISM_PARALLEL", read.whole_number(1, 64), base.parallel, "--parallel", flags.parallel),
        kv_slots=value("PRISM_KV_SLOTS", read.whole_number(0), base.kv_slots, "--kv-slots", flags.kv_slots),
        kv_memory_mb=value("PRISM_KV_MEMORY_MB", _megabytes, base.kv_memory_mb),
        has_spare_worker=value(
            "PRISM_SPARE_WORKER", read.switch, base.has_spare_worker, "--spare-worker", flags.spare_worker
        ),
        threads=value("PRISM_THREADS", read.whole_number(1), None),
        has_loop_guard=value("PRISM_LOOP_GUARD", read.switch, base.has_loop_guard),
        template_mode=value("PRISM_TEMPLATE", read.one_of(TemplateMode), base.template_mode),
        allows_special_tokens=allows_special_tokens or flags.allows_special_tokens,
        ram_reserve_mb=value("PRISM_RAM_RESERVE_MB", _megabytes, base.ram_reserve_mb),
        vram_reserve_mb=value("PRISM_VRAM_RESERVE_MB", _megabytes, base.vram_reserve_mb),
        worker_growth_mb=value("PRISM_WORKER_GROWTH_MB", _megabytes, base.worker_growth_mb),
        has_resource_check=value("PRISM_RESOURCE_CHECK", read.switch, base.has_resource_check),
        has_load_lock=value("PRISM_LOAD_LOCK", read.switch, base.has_load_lock),
        load_timeout_s=value("PRISM_LOAD_TIMEOUT", _seconds, base.load_timeout_s),
        event_log=_event_log(source),
    )


def _model_paths(source: SettingSource) -> ModelPaths:
    home = source.home()
    state_text, _ = source.variable("PRISM_STATE_DIR")
    dirs_text, _ = source.variable("PRISM_MODEL_DIRS")

    if not state_text and home is None:
        source.complain("PRISM_STATE_DIR", "must be set, since this user has no home folder")

    home_dir = home or Path("/")
    state_dir = _absolute(state_text, home_dir) if state_text else home_dir / ".prism"
    named = [_absolute(entry, home_dir) for entry in dirs_text.split(os.pathsep) if entry.strip()]
    # What `pull` downloads must be found again wherever PRISM_STATE_DIR points.
    search_path = [*named, state_dir / "models"]

    if home is not None:
        foundry = home / ".foundry" / "cache" / "models"
        search_path += [home / ".prism" / "models", foundry / "Microsoft", foundry]

    return ModelPaths(state_dir=state_dir, model_dirs=tuple(dict.fromkeys(search_path)), download_dir=search_path[0])


def _ollama_url(source: SettingSource) -> str:
    return source.value("OLLAMA_HOST", daemon_url, DEFAULT_URL)


def _runtime_dir(source: SettingSource) -> Path | None:
    """Take the first folder that the system offers: systemd may name several, the session names one."""
    for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"):
        folder = source.variable(name)[0].partition(":")[0]

        if folder.startswith("/"):
            return Path(folder)

    return None


def _event_log(source: SettingSource) -> Path | None:
    text, label = source.variable("PRISM_EVENT_LOG")

    if not text:
        return None

    path = _absolute(text, source.home() or Path("/"))

    if os.path.isdir(path) or not os.path.isdir(path.parent):
        source.complain(label, f"must be a file in a folder that is there: {path}")
        return None

    return path


def _notify_socket(source: SettingSource) -> str | None:
    name, label = source.variable("NOTIFY_SOCKET")

    if name and (name[0] not in "/@" or len(name) == 1):
        source.complain(label, "must be the path of a socket, or @ and a name")
        return None

    return name or None


def _watchdog_s(source: SettingSource) -> float | None:
    microseconds = source.value("WATCHDOG_USEC", read.whole_number(1), None)
    watched_pid = source.value("WATCHDOG_PID", read.whole_number(1), None)
    # What another service handed down to its children is not meant for us.
    is_watched = watched_pid is None or watched_pid == os.getpid()
    return microseconds / 1e6 if microseconds is not None and is_watched else None


def _absolute(text: str, home: Path) -> Path:
    path = text.strip()

    if path == "~" or path.startswith("~/"):
        return home / path[2:]

    return Path(os.path.abspath(os.path.expanduser(path)))


def _api_keys(source: SettingSource, flags: ServeFlags) -> tuple[str, ...]:
    """Keys given by flags replace those of the environment; within one of them, keys and key file add up."""
    keys: list[str] = [source.parsed("--api-key", key, read.api_key, "", is_flag=True) for key in flags.api_key]
    variable, label = source.variable("PRISM_API_KEY")
    file_variable, file_label = source.variable("PRISM_API_KEY_FILE")

    if flags.api_key_file is not None:
        keys += _keys_of_file(source, "--api-key-file", flags.api_key_file, is_flag=True)

    if not flags.api_key and flags.api_key_file is None:
        keys += [source.parsed(label, variable, read.api_key, "")] if variable else []
        keys += _keys_of_file(source, file_label, file_variable) if file_variable else ()

    return tuple(dict.fromkeys(keys))


def _keys_of_file(source: SettingSource, label: str, path: str, *, is_flag: bool = False) -> tuple[str, ...]:
    content = source.file_content(label, path, is_flag=is_flag)
    return () if content is None else source.parsed(label, content, read.api_keys_of_file, (), is_flag=is_flag)


def _cors_origins(source: SettingSource, flags: ServeFlags) -> tuple[str, ...]:
    variable, label = source.variable("PRISM_CORS_ORIGINS")
    texts, is_flag = (flags.cors_origin, True) if flags.cors_origin else (variable.replace(",", " ").split(), False)
    source_label = "--cors-origin" if is_flag else label
    origins = [source.parsed(source_label, text, read.cors_origin, "", is_flag=is_flag) for text in texts]
    return tuple(dict.fromkeys(origins))
