"""The `fractal` command: the names and one-line helps of all commands, each imported when it is called."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Work": {
        "run": ("run:run", "Start a run: a task in words, from a file, or from standard input."),
        "resume": ("run:resume", "Go on with a run that was interrupted, waits, or was edited."),
        "replay": ("run:replay", "Do a run's task again, from its log or with another model."),
    },
    "Read": {
        "ls": ("read:ls", "List runs, newest first."),
        "show": ("read:show", "Show a run's document, or any of its documents."),
        "tree": ("read:tree", "Show a run's loops and steps, with their documents."),
        "explain": ("explain:explain", "Say why: why this plan, this step, this rung, this verdict."),
        "cost": ("read:cost", "Show what a run cost, by loop and phase."),
        "diff": ("read:diff", "Show which files a run changed, and how."),
        "prompt": ("read:prompt", "Print exactly what the next call for a document would send."),
    },
    "A person's part": {
        "answer": ("person:answer", "Answer the question that a run waits for."),
        "approve": ("person:approve", "Approve the plan or the step that a run waits for."),
        "reject": ("person:reject", "Reject the plan or the step that a run waits for."),
        "feedback": ("person:feedback", "Say whether a run's result was good or bad, and why."),
        "cancel": ("person:cancel", "Cancel a run that is at work or waits."),
        "undo": ("person:undo", "Put back the files that a run, or one step of it, replaced."),
    },
    "Memory": {
        "recall": ("knowing:recall", "Ask memory what it knows of something."),
        "remember": ("knowing:remember", "Keep a fact: in words, from a file, or from standard input."),
        "goal": ("knowing:goal", "Set a goal, list the goals, say that one is reached."),
        "wander": ("knowing:wander", "Walk through what is known, to where there is something to gain."),
        "forget": ("forget:forget", "Take something out of memory for good: look first, then --yes."),
        "dream": ("dream:dream", "Put memory in order, archived first; see what it would do; take it back."),
        "learn": ("learn:learn", "What runs taught, what it brought; learn from a run, a file, or attempts."),
        "context": ("context:context", "Show what a run of a task would be shown of memory, and why."),
    },
    "Services": {
        "mcp": ("mcp:mcp", "Serve runs, documents and tools to MCP clients."),
    },
    "System": {
        "brain": ("brain:brain", "Move, check and mend what is remembered."),
        "tools": ("tools:tools", "List, show, check, make, test and retire tools."),
        "system": ("system:system", "Show, take back and adopt changes of system/."),
        "trust": ("trust:trust", "Look at what a folder's own files ask for, and allow it."),
        "init": ("setup:init", "Make a workspace: system/, state/ and fractal.yaml."),
        "doctor": ("doctor:doctor", "Say what works here, and what to do about what does not."),
        "config": ("setup:config", "Show the settings in effect, and where each comes from."),
        "gc": ("setup:gc", "Move old runs into an archive."),
        "bench": ("bench_memory:bench", "Measure: every figure that the README quotes."),
        "completion": ("setup:completion", "Print the completion script for bash, zsh or fish."),
    },
}
_PLACES = {name: place for group in COMMANDS.values() for name, (place, _) in group.items()}
_HELPS = {name: text for group in COMMANDS.values() for name, (_, text) in group.items()}


def _enter(context: click.Context, _: click.Parameter, folder: str | None) -> None:
    if folder is not None:
        context.find_root().ensure_object(dict)["folder"] = folder


def _folder_option(hidden: bool) -> click.Option:
    return click.Option(
        ["-C", "--folder"],
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        expose_value=False,
        callback=_enter,
        hidden=hidden,
        help="Work in DIR instead of the present folder.",
    )


class Lazy(click.Group):
    """A group that knows its commands' names and helps, and imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the help."""
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; `-C DIR` may stand after its name as well."""
        if cmd_name not in _PLACES:
            return None
        from importlib import import_module

        module, _, name = _PLACES[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"runtime.cli.{module}"), name)
        command.help = command.help or _HELPS[cmd_name]
        if not any(param.name == "folder" for param in command.params):
            command.params.append(_folder_option(hidden=True))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; for an unknown name, the nearest one is named."""
        if args and args[0] not in _PLACES and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], _PLACES, 1)
            hint = f"; did you mean {near[0]}?" if near else f'; to start a run: fractal run "{args[0]} …"'
            raise click.UsageError(f"there is no command {args[0]}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by group, from the table above: nothing is imported for `--help`."""
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:<10}", text) for name, (_, text) in commands.items()], col_max=12
                )


def _help_alone() -> None:
    """`fractal` alone prints its help."""
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from runtime import __version__

        click.echo(f"fractal {__version__}")
        context.exit()


cli = Lazy(
    "fractal",
    help="A file-based agent runtime: one loop, UNDERSTAND, PLAN, DO, CHECK, on markdown documents that you "
    'can read, edit and resume.\n\nStart with: fractal run "count the words in notes.txt"',
    params=[
        _folder_option(hidden=False),
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Print the version.",
        ),
    ],
    invoke_without_command=True,
    callback=_help_alone,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 accepted, 1 failed, 2 usage, 3 configuration, 4 provider, 5 limit, "
    "6 waits for a person, 130 interrupted.",
)


def main(args: Sequence[str] | None = None) -> None:
    """The entry point: run a command, print errors as one line, and exit with the code that they mean."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _run(args)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
    sys.exit(code)


def _run(args: Sequence[str] | None) -> int:
    stdout = sys.stdout
    try:
        colour = False if os.environ.get("NO_COLOR") else None
        code: Any = cli.main(
            None if args is None else list(args), "fractal", standalone_mode=False, color=colour
        )
        return code if isinstance(code, int) else 0
    except SystemExit as end:
        if sys.stdout is stdout:
            return end.code if isinstance(end.code, int) else 0
        sys.stdout = stdout  # click has muffled it: the reader, such as `head`, has had enough
        _drop_stdout()
        return 0
    except click.UsageError as error:
        _complain(error.format_message() + _pointer(error))
        return 2
    except click.ClickException as error:
        _complain(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:
        return _report(error)


def _pointer(error: click.UsageError) -> str:
    return f"\n         see `{error.ctx.command_path} --help`" if error.ctx else ""


def _report(error: Exception) -> int:
    """One line for whatever went wrong; a traceback only for a fault of ours, and only when asked for."""
    from kernel.errors import FractalError

    if os.environ.get("FRACTAL_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, FractalError):
        _complain("\n         ".join([str(error), *getattr(error, "__notes__", ())]))
        return int(error.exit)
    _complain(
        f"a fault in Fractal itself: {type(error).__name__}: {error}\n"
        "         please report it with the output of the same command under FRACTAL_DEBUG=1"
    )
    return 1


def _complain(message: str) -> None:
    from runtime.cli.words import safe

    click.echo(f"fractal: {safe(message)}", err=True)


def _drop_stdout() -> None:
    """Nobody reads standard output any more: what is left in its buffer must not fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
