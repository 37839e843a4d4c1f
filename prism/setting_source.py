"""Finds the text of each setting in its three places, and gathers all that is wrong with it. Used by `prism.settings`.

Blocks for reading the env file and the files that settings name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from prism.env_file import parse_env_file

_Value = TypeVar("_Value")

_MAX_FILE_BYTES = 1 << 20
_PREFIX = "PRISM_"
# Read by other commands, by the launcher or by tests of the diagnosis; known here so that they raise no warning.
_KNOWN_ELSEWHERE = frozenset(
    {
        "PRISM_ACP_MODEL",
        "PRISM_BASE_URL",
        "PRISM_ENV_FILE",
        "PRISM_FORCE_WSL",
        "PRISM_MCP_AUTO_STOP_SEC",
        "PRISM_PYTHON",
        "PRISM_WSLCONFIG_PATH",
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One value that breaks a rule. source: the flag or the variable, with the file that it came from."""

    source: str
    message: str
    is_flag: bool

    def __str__(self) -> str:
        return f"{self.source} {self.message}"


class SettingsError(Exception):
    """Values that break a rule, all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)

    @property
    def is_usage_error(self) -> bool:
        """Say whether only flags are at fault, not the machine's configuration."""
        return all(problem.is_flag for problem in self.problems)


class SettingSource:
    """Finds the text of a setting, and gathers what is wrong."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._problems: list[Problem] = []
        self._asked: set[str] = set()
        self._file_path = environ.get("PRISM_ENV_FILE", "").strip()
        self._file = self._read_env_file() if self._file_path else {}

    def value(
        self,
        name: str,
        parse: Callable[[str], _Value],
        default: _Value,
        flag: str = "",
        flag_text: str | None = None,
    ) -> _Value:
        """Return the value of the flag if it was given, else of the variable, else the default."""
        if flag_text is not None:
            return self.parsed(flag, flag_text, parse, default, is_flag=True)

        text, label = self.variable(name)
        return self.parsed(label, text, parse, default) if text else default

    def variable(self, name: str) -> tuple[str, str]:
        """Return the variable's text, empty when it is not set, and how to name it in a message."""
        self._asked.add(name)
        text = self._environ.get(name, "").strip()

        if text:
            return text, name

        return self._file.get(name, "").strip(), f"{name} (in {self._file_path})" if name in self._file else name

    def parsed(
        self, label: str, text: str, parse: Callable[[str], _Value], default: _Value, *, is_flag: bool = False
    ) -> _Value:
        """Return the value, or note the problem and return the default. The text itself may be a secret: never said."""
        try:
            return parse(text)
        except ValueError as error:
            self.complain(label, str(error), is_flag=is_flag)
            return default

    def complain(self, label: str, message: str, *, is_flag: bool = False) -> None:
        self._problems.append(Problem(label, message, is_flag))

    def file_content(self, label: str, path: str, *, is_flag: bool = False) -> str | None:
        """Return the text of a file; None when it cannot be read, which is noted."""
        try:
            with Path(path).expanduser().open("rb") as file:
                return file.read(_MAX_FILE_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError:
            self.complain(label, f"names {path}, which is not UTF-8 text", is_flag=is_flag)
        except (OSError, ValueError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.complain(label, f"names {path}, which cannot be read: {reason}", is_flag=is_flag)

        return None

    def warnings(self) -> tuple[str, ...]:
        """Return one sentence for each PRISM_ name that is set and that nothing has asked for."""
        known = self._asked | _KNOWN_ELSEWHERE
        named = {name for name in (*self._environ, *self._file) if name.startswith(_PREFIX)}
        return tuple(_unknown_warning(name, sorted(known)) for name in sorted(named - known))

    def home(self) -> Path | None:
        """Return the user's folder; None where the system knows none."""
        home = self._environ.get("HOME", "")

        if home.startswith("/"):
            return Path(home)

        try:
            return Path.home()
        except RuntimeError:
            return None

    def raise_problems(self) -> None:
        if self._problems:
            raise SettingsError(self._problems)

    def _read_env_file(self) -> dict[str, str]:
        return parse_env_file(self.file_content("PRISM_ENV_FILE", self._file_path) or "")


def _unknown_warning(name: str, known: Sequence[str]) -> str:
    # Imported here because hardly any start needs it.
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.8)
    return f"{name} is set, but nothing reads it" + (f"; is {close[0]} meant?" if close else "")
