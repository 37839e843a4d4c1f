"""The command line: `prism COMMAND`. Gathers the commands and turns every way in which one can end into an exit code.

No command shows a traceback: a fault that has a name is one line on stderr, an unexpected one too (`--debug` shows
more). Each command imports what it needs when it runs, so that `prism serve` answers its first request half a second
after its start.
"""

import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from prism import __version__
from prism.cli_doctor import doctor
from prism.cli_failure import CommandFailed, check_packages
from prism.cli_models import list_models, pull
from prism.cli_serve import serve
from prism.cli_status import status
from prism.exit_codes import ExitCode


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:  # noqa: FBT001 - a flag is what the option is
    """Run language models on this machine behind an OpenAI-compatible HTTP API.

    Start with `prism pull smollm2-135m`, then `prism serve`.
    """
    context.obj = debug

    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(ExitCode.FAILURE)


for _command in (serve, list_models, pull, status, doctor):
    cli.add_command(_command)


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        result = cli.main(args=list(arguments), prog_name="prism", standalone_mode=False)
    except click.exceptions.Abort:  # what click makes of Ctrl+C
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:  # the last place where a fault can become a line and an exit code
        return _show_unexpected(error, arguments)

    return result if isinstance(result, int) else ExitCode.OK


def _show_unexpected(error: Exception, arguments: Sequence[str]) -> ExitCode:
    if "--debug" in arguments[:1]:
        traceback.print_exception(error)
        return ExitCode.FAILURE

    if isinstance(error, ImportError):
        try:
            check_packages()
        except CommandFailed as failure:
            failure.show()
            return ExitCode.CONFIGURATION

    click.echo(f"prism: unexpected {type(error).__name__}: {error} (`prism --debug ...` shows where)", err=True)
    return ExitCode.FAILURE
