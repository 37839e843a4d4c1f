"""Where a setting comes from."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from ipc.messages import DeviceChoice
from prism.setting_source import SettingsError
from prism.setting_values import LogLevel, TemplateMode
from prism.settings import ServeFlags, ServeSettings, load_model_paths, load_serve_settings, load_server_url

HOME = {"HOME": "/home/me"}


def load(environ: dict[str, str] | None = None, **flags: object) -> ServeSettings:
    typed = ServeFlags(**flags)  # type: ignore[arg-type]  # the tests give what the fields declare
    settings, _ = load_serve_settings(typed, {**HOME, **(environ or {})})
    return settings


def warnings(environ: dict[str, str]) -> tuple[str, ...]:
    return load_serve_settings(ServeFlags(), {**HOME, **environ})[1]


class TestWhereValuesComeFrom:
    def test_without_any_the_defaults_hold(self) -> None:
        settings = load()
        assert settings == ServeSettings(state_dir=settings.state_dir, model_dirs=settings.model_dirs)
        assert (settings.host, settings.port, settings.queue_timeout_s, settings.max_queue) == (
            "127.0.0.1",
            5272,
            300,
            8,
        )
        assert (settings.sse_ping_s, settings.load_timeout_s) == (15, 120)
        assert (settings.ram_reserve_mb, settings.vram_reserve_mb, settings.worker_growth_mb) == (2048, 1536, 4096)
        assert (settings.has_loop_guard, settings.has_resource_check, settings.has_load_lock) == (True, True, True)
        assert settings.device is DeviceChoice.AUTO

    def test_every_variable_takes_effect(self) -> None:
        settings = load(
            {
                "PRISM_HOST": "0.0.0.0",
                "PRISM_PORT": "0",
                "PRISM_DEVICE": "CUDA",
                "PRISM_MODEL": "phi-4-mini",
                "PRISM_API_KEY": "secret",
                "PRISM_CORS_ORIGINS": "http://a.example, https://B.example:8443",
                "PRISM_QUEUE_TIMEOUT": "1.5",
                "PRISM_MAX_QUEUE": "3",
                "PRISM_SSE_PING": "0",
                "PRISM_PREFILL_CHUNK": "64",
                "PRISM_KV_SLOTS": "0",
                "PRISM_KV_MEMORY_MB": "64.5",
                "PRISM_THREADS": "2",
                "PRISM_SPARE_WORKER": "on",
                "PRISM_LOOP_GUARD": "off",
                "PRISM_TEMPLATE": "Jinja",
                "PRISM_ALLOW_SPECIAL_TOKENS": "yes",
                "PRISM_RAM_RESERVE_MB": "0",
                "PRISM_VRAM_RESERVE_MB": "99.5",
                "PRISM_WORKER_GROWTH_MB": "0",
                "PRISM_RESOURCE_CHECK": "No",
                "PRISM_LOAD_LOCK": "false",
                "PRISM_LOAD_TIMEOUT": "7",
                "PRISM_STATE_DIR": "~/state",
                "PRISM_LOG_LEVEL": "debug",
                "PRISM_EVENT_LOG": "/tmp/events.jsonl",
            }
        )
        assert settings == ServeSettings(
            state_dir=Path("/home/me/state"),
            model_dirs=settings.model_dirs,
            host="0.0.0.0",
            port=0,
            device=DeviceChoice.CUDA,
            preload_model="phi-4-mini",
            api_keys=("secret",),
            cors_origins=("http://a.example", "https://b.example:8443"),
            queue_timeout_s=1.5,
            max_queue=3,
            sse_ping_s=0,
            prefill_chunk=64,
            kv_slots=0,
            kv_memory_mb=64.5,
            threads=2,
            has_spare_worker=True,
            has_loop_guard=False,
            template_mode=TemplateMode.JINJA,
            allows_special_tokens=True,
            ram_reserve_mb=0,
            vram_reserve_mb=99.5,
            worker_growth_mb=0,
            has_resource_check=False,
            has_load_lock=False,
            load_timeout_s=7,
            log_level=LogLevel.DEBUG,
            event_log=Path("/tmp/events.jsonl"),
        )

    def test_every_flag_takes_effect(self) -> None:
        settings = load(
            host="::1",
            port="1",
            device="cpu",
            model="tiny",
            api_key=("a", "b", "a"),
            cors_origin=("*",),
            queue_timeout="0",
            max_queue="0",
            sse_ping="2.5",
            prefill_chunk="off",
            kv_slots="9",
            spare_worker="on",
            log_level="error",
            allows_special_tokens=True,
        )
        assert (settings.host, settings.port, settings.device, settings.preload_model) == ("::1", 1, "cpu", "tiny")
        assert (settings.api_keys, settings.cors_origins) == (("a", "b"), ("*",))
        assert (settings.queue_timeout_s, settings.max_queue, settings.sse_ping_s) == (0, 0, 2.5)
        assert (settings.prefill_chunk, settings.log_level, settings.allows_special_tokens) == (0, "error", True)
        assert (settings.kv_slots, settings.has_spare_worker) == (9, True)

    def test_flag_before_environment_before_file(self, tmp_path: Path) -> None:  # D-58
        file = tmp_path / "prism.env"
        file.write_text("PRISM_PORT=1\nPRISM_MAX_QUEUE=1\nPRISM_THREADS=1\nPRISM_STATE_DIR=/from/file\n")
        environ = {"PRISM_ENV_FILE": str(file), "PRISM_PORT": "2", "PRISM_MAX_QUEUE": "2"}
        settings = load(environ, port="3")
        assert (settings.port, settings.max_queue, settings.threads) == (3, 2, 1)
        assert settings.state_dir == Path("/from/file")

    def test_no_file_is_read_unless_it_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # B-75
        (tmp_path / ".env").write_text("PRISM_PORT=1")
        monkeypatch.chdir(tmp_path)
        assert load().port == 5272

    def test_the_processs_own_environment_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PRISM_PORT", "4711")
        assert load_serve_settings(ServeFlags())[0].port == 4711

    @pytest.mark.parametrize("blank", ["", "  ", "\t"])
    def test_a_blank_variable_is_not_set(self, blank: str) -> None:  # B-75
        names = [
            "PRISM_PORT",
            "PRISM_PREFILL_CHUNK",
            "PRISM_API_KEY",
            "PRISM_MODEL",
            "PRISM_MODEL_DIRS",
            "PRISM_ENV_FILE",
        ]
        assert load(dict.fromkeys(names, blank)) == load()

    @pytest.mark.parametrize(("text", "tokens"), [("off", 0), ("OFF", 0), ("0", 0), ("256", 256)])
    def test_prefill_chunk_can_be_switched_off(self, text: str, tokens: int) -> None:  # D-59
        assert load({"PRISM_PREFILL_CHUNK": text}).prefill_chunk == tokens

    def test_settings_cannot_be_changed(self) -> None:
        with pytest.raises(FrozenInstanceError):
            load().port = 1  # type: ignore[misc]

    def test_keys_are_not_shown(self) -> None:
        assert "secret" not in repr(load({"PRISM_API_KEY": "secret"}))
        assert "secret" not in repr(ServeFlags(api_key=("secret",)))


class TestPaths:
    def test_the_search_path(self) -> None:
        paths = load_model_paths({**HOME, "PRISM_MODEL_DIRS": "~/a::/b/../c:~"})
        assert [str(path) for path in paths.model_dirs] == [
            "/home/me/a",
            "/c",
            "/home/me",
            "/home/me/.prism/models",
            "/home/me/.foundry/cache/models/Microsoft",
            "/home/me/.foundry/cache/models",
        ]
        assert paths.download_dir == Path("/home/me/a")

    def test_downloads_are_found_wherever_the_state_is(self) -> None:  # D-42
        paths = load_model_paths({**HOME, "PRISM_STATE_DIR": "/var/lib/prism"})
        assert paths.download_dir == Path("/var/lib/prism/models")
        assert paths.download_dir in paths.model_dirs
        assert Path("/home/me/.prism/models") in paths.model_dirs

    def test_the_servers_settings_have_the_same_paths(self) -> None:
        environ = {"PRISM_MODEL_DIRS": "/a", "PRISM_STATE_DIR": "/s"}
        assert load(environ).model_dirs == load_model_paths({**HOME, **environ}).model_dirs

    def test_nothing_of_the_working_folder_is_searched(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:  # B-84
        monkeypatch.chdir(tmp_path)
        assert not [path for path in load().model_dirs if path.is_relative_to(tmp_path)]

    def test_relative_entries_are_made_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert load({"PRISM_MODEL_DIRS": "models"}).model_dirs[0] == tmp_path / "models"

    def test_a_user_without_a_home_must_say_where_the_state_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_home() -> Path:
            raise RuntimeError("no home")

        monkeypatch.setattr(Path, "home", no_home)

        with pytest.raises(SettingsError, match="PRISM_STATE_DIR must be set"):
            load_model_paths({"HOME": ""})

        assert load_model_paths({"PRISM_STATE_DIR": "/s"}).model_dirs == (Path("/s/models"),)

    @pytest.mark.parametrize(
        ("environ", "folder"),
        [
            ({}, None),
            ({"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7"),
            ({"XDG_RUNTIME_DIR": "/run/user/7", "RUNTIME_DIRECTORY": "/run/prism:/run/more"}, "/run/prism"),
            ({"XDG_RUNTIME_DIR": "relative"}, None),
        ],
    )
    def test_sockets_go_where_the_system_keeps_them(self, environ: dict[str, str], folder: str | None) -> None:
        assert load(environ).runtime_dir == (folder and Path(folder))


class TestUnknownNames:
    def test_each_is_told_once(self, tmp_path: Path) -> None:
        (tmp_path / "prism.env").write_text("PRISM_MAX_QEUE=1\nPRISM_ZZZ=2\nOTHER=3\n")
        told = warnings({"PRISM_ENV_FILE": str(tmp_path / "prism.env"), "PRISM_MAX_QEUE": "1"})
        assert told == (
            "PRISM_MAX_QEUE is set, but nothing reads it; is PRISM_MAX_QUEUE meant?",
            "PRISM_ZZZ is set, but nothing reads it",
        )

    @pytest.mark.parametrize("name", ["PRISM_ACP_MODEL", "PRISM_BASE_URL", "PRISM_PYTHON", "PRISM_MODEL_DIRS"])
    def test_names_that_others_read_are_known(self, name: str) -> None:  # D-60
        assert warnings({name: "x"}) == ()


class TestServerUrl:
    @pytest.mark.parametrize(
        ("environ", "flag", "expected"),
        [
            ({}, None, "http://127.0.0.1:5272/v1"),
            ({"PRISM_PORT": "81", "PRISM_HOST": "0.0.0.0"}, None, "http://127.0.0.1:81/v1"),
            ({"PRISM_HOST": "::"}, None, "http://[::1]:5272/v1"),
            ({"PRISM_BASE_URL": "https://gpu.example/v1/"}, None, "https://gpu.example/v1"),
            ({"PRISM_BASE_URL": "https://gpu.example/v1"}, "http://localhost:1", "http://localhost:1"),
        ],
    )
    def test_where_client_commands_look(self, environ: dict[str, str], flag: str | None, expected: str) -> None:
        assert load_server_url(flag, environ) == expected

    @pytest.mark.parametrize(
        "url", ["localhost:5272", "ftp://x", "http://", "http://a b", "http://a:port", "http://[::1"]
    )
    def test_what_is_no_url(self, url: str) -> None:
        with pytest.raises(SettingsError, match="--url"):
            load_server_url(url, {})
