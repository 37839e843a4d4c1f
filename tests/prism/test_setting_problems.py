"""What is said about a setting that breaks a rule."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.setting_source import SettingsError
from prism.settings import ServeFlags, ServeSettings, load_serve_settings

HOME = {"HOME": "/home/me"}


def load(environ: dict[str, str] | None = None, **flags: object) -> ServeSettings:
    typed = ServeFlags(**flags)  # type: ignore[arg-type]  # the tests give what the fields declare
    settings, _ = load_serve_settings(typed, {**HOME, **(environ or {})})
    return settings


def problems(environ: dict[str, str] | None = None, **flags: object) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        load(environ, **flags)

    return [str(problem) for problem in raised.value.problems]


class TestProblems:
    def test_all_of_them_are_told_at_once(self, tmp_path: Path) -> None:  # B-75
        file = tmp_path / "prism.env"
        file.write_text("PRISM_DEVICE=tpu\n")
        told = problems({"PRISM_ENV_FILE": str(file), "PRISM_PORT": "x", "PRISM_LOAD_LOCK": "perhaps"}, max_queue="-1")
        assert [line.split(" must ")[0] for line in told] == [
            "PRISM_PORT",
            "--max-queue",
            f"PRISM_DEVICE (in {file})",
            "PRISM_LOAD_LOCK",
        ]

    @pytest.mark.parametrize("text", ["65536", "-1", "1.0", "1e3", "0x10", "1_000", "٣", "nan", "9" * 5000])
    def test_ports(self, text: str) -> None:
        assert problems({"PRISM_PORT": text}) == ["PRISM_PORT must be a whole number from 0 to 65535"]

    @pytest.mark.parametrize("text", ["-1", "inf", "nan", "-inf", "1_0", "five", "٣", "1e999"])
    @pytest.mark.parametrize("name", ["PRISM_QUEUE_TIMEOUT", "PRISM_SSE_PING", "PRISM_LOAD_TIMEOUT"])
    def test_seconds(self, name: str, text: str) -> None:
        assert problems({name: text}) == [f"{name} must be a number of seconds, 0 or more"]

    @pytest.mark.parametrize("text", ["-1", "inf", "nan", "2GB"])
    @pytest.mark.parametrize("name", ["PRISM_RAM_RESERVE_MB", "PRISM_VRAM_RESERVE_MB", "PRISM_WORKER_GROWTH_MB"])
    def test_megabytes(self, name: str, text: str) -> None:
        assert problems({name: text}) == [f"{name} must be a number of megabytes, 0 or more"]

    def test_a_place_for_the_events(self, tmp_path: Path) -> None:
        nowhere = tmp_path / "no" / "events"
        rule = "PRISM_EVENT_LOG must be a file in a folder that is there"
        assert problems({"PRISM_EVENT_LOG": str(nowhere)}) == [f"{rule}: {nowhere}"]
        assert problems({"PRISM_EVENT_LOG": str(tmp_path)}) == [f"{rule}: {tmp_path}"]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("PRISM_THREADS", "0"),
            ("PRISM_MAX_QUEUE", "many"),
            ("PRISM_PREFILL_CHUNK", "-5"),
            ("PRISM_PREFILL_CHUNK", "on"),
            ("PRISM_KV_SLOTS", "-1"),
            ("PRISM_KV_SLOTS", "1.5"),
            ("PRISM_KV_MEMORY_MB", "nan"),
            ("PRISM_DEVICE", "gpu"),
            ("PRISM_TEMPLATE", "liquid"),
            ("PRISM_LOG_LEVEL", "loud"),
            ("PRISM_LOOP_GUARD", "maybe"),
            ("PRISM_SPARE_WORKER", "1.5"),
            ("PRISM_RESOURCE_CHECK", "2"),
            ("PRISM_HOST", "http://localhost"),
            ("PRISM_HOST", "localhost:5272"),
            ("PRISM_HOST", "a b"),
            ("PRISM_CORS_ORIGINS", "localhost:3000"),
            ("PRISM_CORS_ORIGINS", "http://a.example/page"),
            ("PRISM_CORS_ORIGINS", "http://a.example:port"),
            ("PRISM_CORS_ORIGINS", "null"),
            ("PRISM_API_KEY", "two words"),
            ("PRISM_API_KEY", "schlüssel"),
        ],
    )
    def test_the_variable_is_named(self, name: str, text: str) -> None:
        (told,) = problems({name: text})
        assert told.startswith(f"{name} must be ")

    def test_a_flag_is_named_as_it_was_typed(self) -> None:
        assert problems(queue_timeout="")[0].startswith("--queue-timeout must be")

    def test_only_flags_make_a_usage_error(self) -> None:
        for environ, expected in (({}, True), ({"PRISM_PORT": "x"}, False)):
            with pytest.raises(SettingsError) as raised:
                load(environ, max_queue="x")

            assert raised.value.is_usage_error is expected

    def test_a_bad_variable_under_a_good_flag_is_no_problem(self) -> None:
        assert load({"PRISM_PORT": "x"}, port="1").port == 1

    @pytest.mark.parametrize("value", ["/nowhere/prism.env", "/", "a\0b"])
    def test_an_env_file_that_cannot_be_read(self, value: str) -> None:
        (told,) = problems({"PRISM_ENV_FILE": value})
        assert told.startswith("PRISM_ENV_FILE names")

    def test_an_env_file_that_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "prism.env").write_bytes(b"PRISM_PORT=\xff")
        assert "not UTF-8" in problems({"PRISM_ENV_FILE": str(tmp_path / "prism.env")})[0]

    @given(text=st.text(max_size=20))
    def test_every_text_is_a_value_or_a_problem(self, text: str) -> None:
        names = [
            "PRISM_PORT",
            "PRISM_QUEUE_TIMEOUT",
            "PRISM_HOST",
            "PRISM_CORS_ORIGINS",
            "PRISM_PREFILL_CHUNK",
            "PRISM_API_KEY",
        ]

        for name in names:
            try:
                settings = load({name: text})
            except SettingsError as error:
                assert error.problems[0].source == name  # noqa: PT017 - both outcomes are right
            else:
                assert math.isfinite(settings.queue_timeout_s)
                assert 0 <= settings.port <= 65_535


class TestKeys:
    def test_a_key_file_holds_one_a_line(self, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text("# laptop\nfirst\n\n  second  \n")
        assert load(api_key=("zeroth",), api_key_file=str(tmp_path / "keys")).api_keys == ("zeroth", "first", "second")
        assert load({"PRISM_API_KEY_FILE": str(tmp_path / "keys")}).api_keys == ("first", "second")

    def test_keys_of_flags_replace_those_of_the_environment(self) -> None:
        assert load({"PRISM_API_KEY": "old"}, api_key=("new",)).api_keys == ("new",)

    def test_an_empty_key_never_opens_the_server(self, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text("# none yet\n")
        assert "must not be empty" in problems(api_key=("",))[0]
        assert "holds no key" in problems(api_key_file=str(tmp_path / "keys"))[0]
        assert "cannot be read" in problems(api_key_file=str(tmp_path / "missing"))[0]

    def test_a_bad_key_is_not_repeated(self) -> None:
        assert not [line for line in problems(api_key=("my secret",)) if "my secret" in line]
