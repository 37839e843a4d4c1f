"""`prism serve`: settings and checks first, then the server's entry point. Imports the server only when all is well."""

import logging

import click

from prism.cli_failure import check_packages, settings_failure
from prism.log_lines import set_up_logging
from prism.setting_source import SettingsError

logger = logging.getLogger(__name__)


# Values arrive as text: `prism.settings` reads a flag and its variable by one rule and names all that is wrong at once.
@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--port", metavar="PORT", help="Port to listen on; 0 takes a free one. [default: 5272]")
@click.option("--device", metavar="auto|cuda|cpu", help="Where models run. [default: auto]")
@click.option("--model", metavar="NAME", help="Load this model before the first request.")
@click.option("--api-key", metavar="KEY", multiple=True, help="Require this key (visible in `ps`); may be repeated.")
@click.option("--api-key-file", metavar="FILE", help="Require one of the keys in this file, one a line.")
@click.option(
    "--cors-origin", metavar="ORIGIN", multiple=True, help="Let pages of this origin in (`*`: any); repeatable."
)
@click.option("--queue-timeout", metavar="SECONDS", help="Longest wait for a turn; 0 is for ever. [default: 300]")
@click.option("--max-queue", metavar="N", help="Requests that may wait; 0 is any number. [default: 8]")
@click.option("--max-connections", metavar="N", help="Connections that may be open; 0 is what suits. [default: 0]")
@click.option("--header-timeout", metavar="SECONDS", help="Time for the headers of a request; 0 is any. [default: 10]")
@click.option(
    "--send-timeout", metavar="SECONDS", help="End clients that read nothing for this long; 0 is never. [default: 30]"
)
@click.option(
    "--sse-ping", metavar="SECONDS", help="Comment in a stream silent for this long; 0 is never. [default: 15]"
)
@click.option("--parallel", metavar="N", help="Requests at a time, for a model that was made for several. [default: 1]")
@click.option(
    "--prefill-chunk", metavar="TOKENS", help="Prompt tokens per step; 0 or off is all at once. [default: 128]"
)
@click.option(
    "--kv-slots", metavar="N", help="Finished requests that later turns continue from; 0 is none. [default: 4]"
)
@click.option("--spare-worker", metavar="on|off", help="Keep a process ready for the next load. [default: off]")
@click.option(
    "--allow-special-tokens", "allows_special_tokens", is_flag=True, help="Let clients' text act as control tokens."
)
@click.option("--log-level", metavar="debug|info|warning|error", help="How much the log says. [default: info]")
def serve(**options: object) -> int:
    """Answer OpenAI-compatible requests over HTTP.

    Each flag has a variable, PRISM_ and its name (PRISM_PORT, PRISM_API_KEY_FILE; PRISM_CORS_ORIGINS takes a list);
    the flag wins. PRISM_ENV_FILE may name a file of such variables. OLLAMA_HOST says where the Ollama daemon is.
    """
    check_packages()

    # Imported after the check: it reaches into another package.
    from prism.settings import ServeFlags, load_serve_settings

    flags = ServeFlags(**options)  # type: ignore[arg-type]  # click gives what the options above declare

    try:
        settings, warnings = load_serve_settings(flags)
    except SettingsError as error:
        raise settings_failure(error) from error

    set_up_logging(settings.log_level)

    for warning in warnings:
        logger.warning("%s", warning)

    # Imported last: nobody waits half a second to read that a setting is wrong.
    from prism.http.serve import run_server

    return run_server(settings)
