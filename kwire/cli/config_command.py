"""Command `kwire config explain`: the settings, their meaning, and their effect in kwire."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from kwire.properties_files import read_properties


@click.group()
def config() -> None:
    """Settings of brokers, topics, groups and client metrics."""


@config.command()
@click.argument("key", required=False)
@click.option("--broker", "kinds", flag_value="broker", help="Only settings of brokers (server.properties).")
@click.option("--topic", "kinds", flag_value="topic", help="Only settings of topics.")
@click.option("--group", "kinds", flag_value="group", help="Only settings of groups.")
@click.option("--client-metrics", "kinds", flag_value="client-metrics", help="Only settings of client metrics.")
@click.option("--search", "word", default="", metavar="WORD", help="Only settings with this word in name or meaning.")
@click.option("--file", "file", type=click.Path(path_type=Path), help="Show the value in this server.properties.")
@click.option("--markdown", is_flag=True, help="Print all settings as the page of the documentation.")
def explain(key: str | None, kinds: str | None, word: str, file: Path | None, *, markdown: bool) -> None:
    """Explain KEY, or list all settings, each with what kwire does with it and its default."""
    # Imported here, because `kwire server` imports this module but must start without these.
    from kwire.cli.explanations import KINDS, chosen, explanation, line, page  # noqa: PLC0415

    if markdown:
        if key or kinds or word or file:
            raise click.UsageError("--markdown writes the whole page: leave out KEY and other options")
        click.echo(page(), nl=False)
        return
    shown_kinds = (kinds,) if kinds else KINDS
    if key is None:
        for kind, found in chosen(shown_kinds, word):
            click.echo(line(kind, found))
        return
    explained = [(kind, found) for kind, found in chosen(shown_kinds, "") if found.name == key]
    if not explained:
        _reject(key)
    given = _given(file)
    click.echo("\n\n".join(explanation(kind, found, given) for kind, found in explained))


def _reject(name: str) -> None:
    import difflib  # noqa: PLC0415 see explain

    from kwire.cli.explanations import SECTIONS  # noqa: PLC0415

    names = {key.name for section in SECTIONS for key in section.keys}
    close = difflib.get_close_matches(name, sorted(names), n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; look for one with --search"
    click.echo(f"kwire: {name} is not a setting of Kafka{hint}", err=True)
    sys.exit(1)


def _given(file: Path | None) -> Mapping[str, str]:
    if file is None:
        return {}
    try:
        return read_properties(file.read_text())
    except UnicodeDecodeError:
        problem = "is not a text file"
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
    click.echo(f"kwire: {file}: {problem}", err=True)
    sys.exit(1)
