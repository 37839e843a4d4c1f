"""Where the daemon is, by what OLLAMA_HOST says."""

import pytest

from prism.ollama.address import daemon_url
from prism.setting_source import SettingsError
from prism.settings import ServeFlags, load_ollama_url, load_serve_settings


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("  ", "http://127.0.0.1:11434"),
        ("example", "http://example:11434"),
        ("example:1234", "http://example:1234"),
        (":1234", "http://127.0.0.1:1234"),
        ("http://example", "http://example:80"),
        ("https://example", "https://example:443"),
        ("HTTPS://example", "https://example:443"),
        ("http://example:1234/", "http://example:1234"),
        ("https://example/behind/a/proxy/", "https://example:443/behind/a/proxy"),
        ("example:1234/ollama", "http://example:1234/ollama"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234"),
        ("http://0.0.0.0:1234", "http://127.0.0.1:1234"),
        ("::1", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:1234", "http://[::1]:1234"),
        ("http://[::1]:1234", "http://[::1]:1234"),
        ("::", "http://[::1]:11434"),
        ("[::]:1234", "http://[::1]:1234"),
        ("[0:0:0:0:0:0:0:0]:1234", "http://[::1]:1234"),
        ("2001:db8::1", "http://[2001:db8::1]:11434"),
        ('"example:1234"', "http://example:1234"),
        # A port that is none: the daemon takes its usual one, and so it is found there.
        ("example:", "http://example:11434"),
        ("example:66000", "http://example:11434"),
        ("example:0", "http://example:11434"),
        ("example:x", "http://example:11434"),
        ("http://example:x", "http://example:80"),
    ],
)
def test_every_form_leads_to_the_daemon(text: str, url: str) -> None:
    assert daemon_url(text) == url


@pytest.mark.parametrize(
    "text", ["ftp://example", "http://user@example", "http://example/?a=b", "two words", "a b:1", "é", "a\x00b", "x::y"]
)
def test_what_names_no_host_is_refused_with_a_rule(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        daemon_url(text)


def test_the_setting_is_read_from_the_environment() -> None:
    environ = {"HOME": "/home/me", "OLLAMA_HOST": "0.0.0.0:1234"}
    assert load_serve_settings(ServeFlags(), environ)[0].ollama_url == "http://127.0.0.1:1234"
    assert load_ollama_url(environ) == "http://127.0.0.1:1234"
    assert load_ollama_url({"HOME": "/home/me"}) == "http://127.0.0.1:11434"


def test_one_that_cannot_be_used_is_named() -> None:
    with pytest.raises(SettingsError, match="OLLAMA_HOST must"):
        load_ollama_url({"HOME": "/home/me", "OLLAMA_HOST": "ftp://example"})
