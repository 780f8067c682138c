"""The `fractal` command: names and helps of all commands; each is imported when it is called."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import click

from runtime import __version__

COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Work": {
        "run": ("run", "Start a run: a task in words, from a file, or from standard input."),
        "resume": ("run", "Continue a run that was interrupted, waits, or was edited."),
        "replay": ("run", "Repeat the task of a run, from its log or with another model."),
        "fork": ("run", "Copy a run up to a step, and go on differently."),
    },
    "Read": {
        "ls": ("read", "List runs, newest first."),
        "show": ("read", "Show the document of a run, or any of its documents."),
        "tree": ("read", "Show the loops and steps of a run, with their documents."),
        "explain": ("explain", "Explain a run: its plan, steps, models and verdict."),
        "cost": ("read", "Show the cost of a run, by loop and phase."),
        "diff": ("read", "Show which files a run changed, and how."),
        "prompt": ("read", "Print the exact prompt of the next call for a document."),
    },
    "Decide": {
        "answer": ("person", "Answer the question that a run waits for."),
        "approve": ("person", "Approve the plan or step that a run waits for."),
        "reject": ("person", "Reject the plan or step that a run waits for."),
        "say": ("person", "Say something to a run that works; its next turn sees it."),
        "feedback": ("person", "Rate the result of a run as good or bad."),
        "cancel": ("person", "Cancel a run."),
        "undo": ("person", "Restore the files that a run, or one step of it, changed."),
        "apply": ("changes", "Bring what a run changed in its worktree to your folder."),
        "discard": ("changes", "Remove the worktree of a run."),
    },
    "Oversight": {
        "messages": ("nervous", "Show messages, send a task to an agent, reply by id."),
        "beat": ("nervous", "Take up tasks and replies as they come, at an interval."),
        "review": ("nervous", "Show what waits for a decision, with its dangers and what it would change."),
        "nudge": ("nervous", "Send a plan or step back, and say what to do differently."),
        "veto": ("nervous", "End a run by a decision that overrules oversight."),
        "decisions": ("nervous", "Show what was decided, by whom, and what came of it."),
        "grant": ("nervous", "Let an agent know a tool; without one, list what was granted."),
        "revoke": ("nervous", "Take a tool from an agent."),
        "growth": ("nervous", "Show by month how often tasks need no help, and which tools came."),
        "lifeforce": ("nervous", "Show the lifeforce of the agent, where it is counted."),
    },
    "Memory": {
        "recall": ("memory", "Search memory."),
        "remember": ("memory", "Store a fact: in words, from a file, or from standard input."),
        "goal": ("memory", "Set a goal, list the goals, mark one as reached."),
        "wander": ("memory", "Walk through what is known, towards something to learn."),
        "forget": ("memory", "Remove something from memory for good; shows it first."),
        "dream": ("memory", "Consolidate memory, preview that, or revert it."),
        "learn": ("learn", "Show what was learned; learn from a run, a file, or attempts."),
        "context": ("memory", "Show what memory would add to the prompt for a task, and why."),
    },
    "Services": {
        "acp": ("acp", "Serve editors that speak the Agent Client Protocol."),
        "mcp": ("mcp", "Serve runs, documents and tools to MCP clients."),
        "serve": ("serve", "Serve runs, memory and a page over HTTP."),
        "runner": ("runner", "Take bench runs from a server, and do them here."),
    },
    "System": {
        "brain": ("brain", "Move, check and repair memory; report its decisions."),
        "bench": ("bench", "Measure a model on a suite of problems, and what memory adds."),
        "tools": ("tools", "List, show, check, create, test and retire tools."),
        "system": ("system", "Edit system/; review, revert and adopt changes of it."),
        "trust": ("setup", "Show what a folder's own files ask for, and allow it."),
        "init": ("setup", "Make a folder a workspace: fractal.yaml, state/ and system/."),
        "doctor": ("doctor", "Check what works here, and how to fix what does not."),
        "model": ("model", "Show who answers, and how fast a model is here."),
        "config": ("setup", "Show the settings in effect, and their sources."),
        "gc": ("setup", "Move old runs to an archive."),
        "completion": ("setup", "Print the completion script for bash, zsh or fish."),
    },
}
"""By group, each command with its module and its one-line help."""
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
        help="Work in DIR instead of the current folder.",
    )


class Lazy(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the help."""
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; `-C DIR` is allowed after its name too."""
        if cmd_name not in _PLACES:
            return None
        from importlib import import_module

        command: click.Command = getattr(import_module(f"{__package__}.{_PLACES[cmd_name]}"), cmd_name)
        command.help = command.help or _HELPS[cmd_name]
        if not any(param.name == "folder" for param in command.params):
            command.params.append(_folder_option(hidden=True))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The called command; the error for an unknown name suggests the nearest one."""
        if args and args[0] not in _PLACES and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], _PLACES, 1)
            hint = f"; did you mean {near[0]}?" if near else f'; to start a run: fractal run "{args[0]} …"'
            raise click.UsageError(f"there is no command {args[0]}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by group, without importing them."""
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:<10}", text) for name, (_, text) in commands.items()], col_max=12
                )


def _alone() -> int:
    """Without a command: a conversation on a terminal, else the help."""
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        return 0
    if all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        from runtime.cli.conversation import Conversation

        return Conversation(_run, _report).hold()
    from runtime.cli.output import echo

    echo(context.get_help())
    return 0


cli: click.Group = Lazy(
    "fractal",
    help="A file-based agent runtime. One loop (Understand, Plan, Do, Check) works on markdown documents "
    "that you can read, edit and resume.\n\n"
    'Start with: fractal run "count the words in notes.txt"\n\n'
    "On a terminal, `fractal` alone opens a conversation.",
    params=[_folder_option(hidden=False)],
    invoke_without_command=True,
    callback=_alone,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 accepted, 1 failed, 2 usage, 3 configuration, 4 provider, 5 limit, "
    "6 waiting for a person, 7 unanswered, 130 interrupted.",
)
cli = click.version_option(__version__, message="fractal %(version)s", help="Print the version.")(cli)


def main(args: Sequence[str] | None = None, command: click.Command = cli, name: str = "fractal") -> None:
    """Run a command; print an error as one line and exit with its code."""
    gc.set_threshold(20_000, 20, 20)  # collecting while the modules load took an eighth of a short command
    closed = _open_missing()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _run(args, command, name)
    if closed:
        _complain(f"standard output is closed, so nothing was printed; {KEPT}")
    elif why := _not_printed():
        _complain(f"standard output cannot be written: {why}; {KEPT}")
        code = code or 1
    try:
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)
    sys.exit(code)


KEPT = "a run keeps its result: fractal show"
"""What to do where standard output took none of it."""


def _open_missing() -> bool:
    """Open standard streams that are closed, so that no file gets their number; whether output was."""
    closed = sys.stdout is None  # pyright: ignore[reportUnnecessaryComparison]
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    return closed


def _not_printed() -> str:
    """Why standard output does not take what was printed; "" if it does, or if its reader is gone."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _drop(sys.stdout)
        return "" if isinstance(error, BrokenPipeError) else (error.strerror or str(error)).lower()
    return ""


def _run(args: Sequence[str] | None, command: click.Command = cli, name: str = "fractal") -> int:
    stdout = sys.stdout
    try:
        colour = False if os.environ.get("NO_COLOR") else None
        code: Any = command.main(
            None if args is None else list(args), name, standalone_mode=False, color=colour
        )
        return code if isinstance(code, int) else 0
    except SystemExit as end:
        if sys.stdout is stdout:
            return end.code if isinstance(end.code, int) else 0
        sys.stdout = stdout  # click replaced it: the reader, such as `head`, closed the pipe
        _drop(stdout)
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
        if isinstance(error, OSError) and (why := _not_printed()):
            _complain(f"standard output cannot be written: {why}; {KEPT}")
            return 1
        return _report(error)


def _pointer(error: click.UsageError) -> str:
    return f"\n         see `{error.ctx.command_path} --help`" if error.ctx else ""


def _report(error: Exception) -> int:
    """Print an error and return its exit code; a traceback only with FRACTAL_DEBUG."""
    from kernel.errors import FractalError

    if os.environ.get("FRACTAL_DEBUG"):
        import traceback

        _complain("".join(traceback.format_exception(error)))
    if isinstance(error, FractalError):
        _complain("\n         ".join([str(error), *getattr(error, "__notes__", ())]))
        return int(error.exit)
    _complain(
        f"internal error: {type(error).__name__}: {error}\n"
        "         please report it with the output of the same command with FRACTAL_DEBUG=1"
    )
    return 1


def _complain(message: str) -> None:
    from runtime.cli.output import notify

    notify(f"fractal: {message}")


def _drop(stream: TextIO) -> None:
    """Redirect a standard stream that takes nothing more, so that flushing it at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
