"""The operation git: reads a repository, and commits where a person allows it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime.operations.committing import commit_of_run
from runtime.operations.texts import cut
from runtime.sandbox import programs
from runtime.sandbox.checkout import CLOSED, Checkout, ignored_by_user, pairs
from runtime.sandbox.context import OperationContext, operation

_PLAIN = ("color.ui=false", "core.quotePath=false", "diff.external=", "log.showSignature=false")
"""Settings that make git print the same everywhere."""
_WORDS = ("--no-pager", *(word for each in _PLAIN for word in ("-c", each)))
_PLAIN_DIFF = ("--no-ext-diff", "--no-textconv")
_LOOK = (*_PLAIN_DIFF, "--ignore-submodules=all")
_NO_COMMIT = Result("there are no commits yet", evidence={"commits": 0})
_SCRIPT = """
git=$1 mark=$2; shift 2
while (($#)); do
  { errors=$("$git" "${@:2:$1}" 2>&1 >&3 3>&-); exit=$?; } 3>&1
  printf '%s%s %s%s' "$mark" "$exit" "$errors" "$mark"
  shift $(($1 + 1))
done
"""
"""Runs git once for each group of words. After each output come its exit code and errors, between marks."""
_BORN = ("rev-parse", "--quiet", "--verify", "HEAD^{commit}")


@operation()
async def git(
    ctx: OperationContext, action: str, path: str = "", limit: int = 20, message: str = ""
) -> Result:
    """The state, the commits, the uncommitted changes, or the branches of the repository here."""
    if action == "commit":
        return await commit_of_run(ctx, message, path)
    pathspec = ["--", str(ctx.readable(path).relative_to(ctx.folder.resolve())) if path else "."]
    commits = [f"--max-count={limit}", "--date=short", "--format=%h %ad %an: %s"]
    match action:
        case "status":
            words = ["status", "--short", "--branch", "--ignore-submodules=all", *pathspec]
            (out,) = await _git(ctx, words)
            changes = sum(not line.startswith("## ") for line in out.splitlines())
            text = out if changes else f"{out}\nnothing has changed"
            return Result(text, evidence={"changes": changes, "clean": not changes})
        case "log":
            if (out := await _of_commits(ctx, ["log", *commits, *pathspec])) is None:
                return _NO_COMMIT
            return Result(out or "no commit has touched this", evidence={"commits": len(out.splitlines())})
        case "count":
            if (out := await _of_commits(ctx, ["rev-list", "--count", "HEAD", *pathspec])) is None:
                return _NO_COMMIT
            return Result(out, evidence={"commits": int(out)})
        case "authors":
            words = ["shortlog", "--summary", "--numbered", "--email", "HEAD", *pathspec]
            if (out := await _of_commits(ctx, words)) is None:
                return _NO_COMMIT
            return Result(out, evidence={"authors": len(out.splitlines())})
        case "show":
            named = ["--fixed-strings", f"--grep={message}"] if message else []
            words = ["log", *named, *commits, "--stat", *_PLAIN_DIFF, *pathspec]
            if (out := await _of_commits(ctx, words)) is None:
                return _NO_COMMIT
            if not out:
                raise OperationFailed("there is no such commit")
            return Result(out, evidence={})
        case "diff":
            if (out := await _of_commits(ctx, ["diff", "HEAD", *_LOOK, *pathspec])) is None:
                (out,) = await _git(ctx, ["diff", "--cached", *_LOOK, *pathspec])
            files = sum(line.startswith("diff --git ") for line in out.splitlines())
            return Result(out or "nothing has changed since the last commit", evidence={"files": files})
        case "branch":
            form = "--format=%(if)%(HEAD)%(then)* %(else)  %(end)%(refname:short)"
            listed = ["branch", "--list", "--sort=refname", form]
            current, out = await _git(ctx, ["branch", "--show-current"], listed)
            return Result(out or f"* {current} (no commits yet)", evidence={"current": current})
    (current,) = await _git(ctx, ["branch", "--show-current"])
    if current:
        return Result(current, evidence={"current": current})
    (commit,) = await _git(ctx, ["rev-parse", "--short", "HEAD"])
    evidence = {"current": "", "commit": commit}
    return Result(f"no branch: the commit {commit} is checked out", evidence=evidence)


async def _of_commits(ctx: OperationContext, words: Sequence[str]) -> str | None:
    """What git says about the commits; None if there is none yet."""
    born, (exit, out, errors) = await _ran(ctx, [_BORN, words])
    if born[0] == 1:
        return None
    return _good(words, exit, out, errors)


async def _git(ctx: OperationContext, *commands: Sequence[str]) -> list[str]:
    """What git prints for each of these commands."""
    ran = await _ran(ctx, commands)
    return [_good(words, *each) for words, each in zip(commands, ran, strict=True)]


def _good(words: Sequence[str], exit: int, out: str, errors: str) -> str:
    if exit:
        raise OperationFailed(f"git {words[0]}: {errors.removeprefix('fatal: ')[:1000]}")
    return cut(out.removesuffix("\n"))


async def _ran(ctx: OperationContext, commands: Sequence[Sequence[str]]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each git command.

    All run in one sandbox, read-only and without network, for git runs what the repository's settings name.
    Without the sandbox git gets none of these settings.
    """
    program, checkout = programs.program("git", ctx.folder), Checkout.around(ctx.folder)
    if program is None:
        raise OperationFailed("git is not installed")
    if checkout is None:
        raise OperationFailed("this folder is not in a git repository")
    ignored = Path(ignored_by_user(program))
    settings: Mapping[str, str] = {
        **CLOSED,
        **checkout.located,
        **pairs({"safe.bareRepository": "explicit", "core.excludesFile": str(ignored)}),
    }
    visible = [checkout.common, *checkout.rules(ctx.folder)]
    if ignored.is_file() and not ignored.is_symlink():
        visible.append(ignored)
    with ExitStack() as stack:
        if ctx.sandbox.mode == "off":
            if checkout.borrows:
                raise OperationFailed(
                    "the repository borrows from another one; without the sandbox, use bash"
                )
            if checkout.filters(program):
                raise OperationFailed(
                    "the repository names a program to run on files; without the sandbox, use bash"
                )
            settings = stack.enter_context(checkout.unconfigured(program, str(ignored)))
        mark = f"\n{secrets.token_hex(16)}\n"
        groups = [word for each in commands for word in (str(len(_WORDS) + len(each)), *_WORDS, *each)]
        ran = await ctx.run(
            ["bash", "-c", _SCRIPT, "git", program, mark, *groups],
            own=tuple(visible),
            env=settings,
            timeout=ctx.timeout * 0.9,
            read_only=True,
            network=False,
        )
    if ran.timed_out:
        raise OperationFailed(
            f"git {commands[-1][0]} took longer than {ctx.timeout * 0.9:g} s and was stopped"
        )
    parts = ran.output.split(mark)[:-1]
    if len(parts) != 2 * len(commands):
        raise OperationFailed(f"git {commands[-1][0]} was stopped: {ran.output.strip()[-1000:]}")
    ended = [said.partition(" ") for said in parts[1::2]]
    return [
        (int(exit), out, errors.strip()) for (exit, _, errors), out in zip(ended, parts[::2], strict=True)
    ]
