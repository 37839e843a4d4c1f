"""How a command gives up: one line on stderr and an exit code. Raised by the commands, shown by `prism.cli`."""

from typing import IO, Any

import click

from prism import own_modules
from prism.exit_codes import ExitCode
from prism.setting_source import SettingsError


class CommandFailed(click.ClickException):
    """The command cannot do what was asked."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it on the class and reads it from the error

    def show(self, file: IO[Any] | None = None) -> None:  # Any: the signature of the class that click gives us
        """Write the line."""
        click.echo(f"prism: {self.format_message()}", file=file, err=file is None)


def check_packages() -> None:
    """Raise CommandFailed when one of the four packages is not ours."""
    foreign = own_modules.foreign_packages()

    if foreign:
        raise CommandFailed(own_modules.describe(foreign), ExitCode.CONFIGURATION)


def settings_failure(error: SettingsError) -> CommandFailed:
    """Name every setting that breaks a rule, one a line.

    Flags alone are a usage error; else the configuration is at fault.
    """
    exit_code = ExitCode.USAGE if error.is_usage_error else ExitCode.CONFIGURATION

    if len(error.problems) == 1:
        return CommandFailed(str(error), exit_code)

    lines = "".join(f"\n  {problem}" for problem in error.problems)
    return CommandFailed(f"{len(error.problems)} settings cannot be used:{lines}", exit_code)
