"""What the server takes from the variables that systemd sets."""

import os

import pytest

from prism.setting_source import SettingsError
from prism.settings import ServeFlags, ServeSettings, load_serve_settings


def load(**environ: str) -> ServeSettings:
    return load_serve_settings(ServeFlags(), {"HOME": "/home/me", **environ})[0]


@pytest.mark.parametrize("name", ["/run/systemd/notify", "@prism/notify"])
def test_the_socket_is_a_path_or_an_abstract_name(name: str) -> None:
    assert load(NOTIFY_SOCKET=name).notify_socket == name


def test_without_systemd_there_is_none() -> None:
    assert (load().notify_socket, load().watchdog_s) == (None, None)
    assert load(NOTIFY_SOCKET="", WATCHDOG_USEC="") == load()


@pytest.mark.parametrize("name", ["notify", "vsock:2:1234", "@", "/"])
def test_another_kind_of_socket_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="NOTIFY_SOCKET must be the path of a socket, or @ and a name"):
        load(NOTIFY_SOCKET=name)


def test_the_watchdog_of_this_process_is_fed() -> None:
    assert load(WATCHDOG_USEC="20000000").watchdog_s == 20.0
    assert load(WATCHDOG_USEC="400000", WATCHDOG_PID=str(os.getpid())).watchdog_s == 0.4


def test_the_watchdog_of_another_process_is_not() -> None:
    assert load(WATCHDOG_USEC="20000000", WATCHDOG_PID=str(os.getppid())).watchdog_s is None


@pytest.mark.parametrize(("name", "text"), [("WATCHDOG_USEC", "20s"), ("WATCHDOG_USEC", "0"), ("WATCHDOG_PID", "-1")])
def test_a_watchdog_that_is_no_number_is_named(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load(**{name: text})
