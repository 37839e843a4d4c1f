"""`prism doctor`: shows what `prism.doctor` finds, each line as soon as it is known."""

import json

import click

from prism.cli_failure import check_packages
from prism.exit_codes import ExitCode
from prism.log_lines import printable


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:  # noqa: FBT001 - a flag is what the option is
    """Look for what keeps this machine from serving.

    Ends with 78 when the packages or the settings are at fault, with 1 when something else that serving needs is
    missing.
    """
    check_packages()

    # Imported after the check: it reaches into the other packages.
    from prism.doctor import Check, Verdict, all_checks

    checks: list[Check] = []

    for look in all_checks():
        check = look()
        checks.append(check)

        if not as_json:
            click.echo(f"{check.verdict:<7} {check.name:<9} {printable(check.detail)}")

    if as_json:
        click.echo(json.dumps([{"name": c.name, "verdict": c.verdict, "detail": c.detail} for c in checks], indent=2))

    failed = {check.name for check in checks if check.verdict is Verdict.FAILED}

    if failed:
        context.exit(ExitCode.CONFIGURATION if failed & {"packages", "settings"} else ExitCode.FAILURE)
