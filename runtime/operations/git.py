"""The operation git: reads a repository and changes nothing in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from kernel.errors import OperationFailed
from kernel.tools.operations import OperationContext, Result, operation
from runtime.operations.texts import cut

_OFF = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "color.ui=false"),
    *("diff.external=", "log.showSignature=false", "submodule.recurse=false", "core.quotePath=false"),
)
"""Settings that keep git from running programs that the configuration of the repository names."""
_SAFE = ("--no-pager", "--literal-pathspecs", *(word for each in _OFF for word in ("-c", each)))
_LOOK = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")


@operation()
def git(ctx: OperationContext, action: str, path: str = "", limit: int = 20, message: str = "") -> Result:
    """The state, the commits, the uncommitted changes, or the branches of the repository here."""
    pathspec = ["--", str(ctx.readable(path).relative_to(ctx.folder.resolve())) if path else "."]
    _git(ctx, ["rev-parse", "--git-dir"])
    _refuse_filters(ctx)
    match action:
        case "status":
            out = _git(ctx, ["status", "--short", "--branch", "--ignore-submodules=all", *pathspec])
            changes = sum(not line.startswith("## ") for line in out.splitlines())
            text = out if changes else f"{out}\nnothing has changed"
            return Result(text, evidence={"changes": changes, "clean": not changes})
        case "log" if not _has_commits(ctx):
            return Result("there are no commits yet", evidence={"commits": 0})
        case "log":
            form = ["--date=short", "--format=%h %ad %an: %s"]
            out = _git(ctx, ["log", f"--max-count={limit}", *form, *pathspec])
            return Result(out or "no commit has touched this", evidence={"commits": len(out.splitlines())})
        case "count" | "authors" | "show" if not _has_commits(ctx):
            return Result("there are no commits yet", evidence={"commits": 0})
        case "count":
            out = _git(ctx, ["rev-list", "--count", "HEAD", *pathspec])
            return Result(out, evidence={"commits": int(out)})
        case "authors":
            out = _git(ctx, ["shortlog", "--summary", "--numbered", "--email", "HEAD", *pathspec])
            return Result(out, evidence={"authors": len(out.splitlines())})
        case "show":
            form = ["--date=short", "--format=%h %ad %an: %s", "--stat", "--no-ext-diff", "--no-textconv"]
            named = ["--fixed-strings", f"--grep={message}"] if message else []
            out = _git(ctx, ["log", f"--max-count={limit}", *named, *form, *pathspec])
            if not out:
                raise OperationFailed("there is no such commit")
            return Result(out, evidence={})
        case "diff":
            base = ["HEAD"] if _has_commits(ctx) else ["--cached"]
            out = _git(ctx, ["diff", *base, *_LOOK, *pathspec])
            files = sum(line.startswith("diff --git ") for line in out.splitlines())
            return Result(out or "nothing has changed since the last commit", evidence={"files": files})
    current = _git(ctx, ["branch", "--show-current"])
    if action == "branch":
        form = "--format=%(if)%(HEAD)%(then)* %(else)  %(end)%(refname:short)"
        out = _git(ctx, ["branch", "--list", "--sort=refname", form])
        return Result(out or f"* {current} (no commits yet)", evidence={"current": current})
    if current:
        return Result(current, evidence={"current": current})
    commit = _git(ctx, ["rev-parse", "--short", "HEAD"])
    evidence = {"current": "", "commit": commit}
    return Result(f"no branch: the commit {commit} is checked out", evidence=evidence)


def _has_commits(ctx: OperationContext) -> bool:
    return bool(_git(ctx, ["rev-parse", "--quiet", "--verify", "HEAD^{commit}"], allowed=(0, 1)))


def _refuse_filters(ctx: OperationContext) -> None:
    """Refuse a repository with filters: git would run these programs to compare files."""
    found = _git(
        ctx,
        ["config", "--local", "--includes", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$"],
        (0, 1),
    )
    if found:
        raise OperationFailed(
            f"the repository names a program to run on files ({found.splitlines()[0]}); use bash"
        )


def _git(ctx: OperationContext, args: Sequence[str], allowed: Sequence[int] = (0,)) -> str:
    try:
        process = subprocess.run(
            ["git", *_SAFE, *args],
            cwd=ctx.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ctx.timeout * 0.9,
            check=False,
        )
    except FileNotFoundError:
        raise OperationFailed("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise OperationFailed(
            f"git {args[0]} took longer than {ctx.timeout * 0.9:g} s and was stopped"
        ) from None
    if process.returncode not in allowed:
        error = process.stderr.decode("utf-8", "replace").strip()
        if "not a git repository" in error:
            raise OperationFailed("this folder is not in a git repository")
        raise OperationFailed(f"git {args[0]}: {error.removeprefix('fatal: ')[:1000]}")
    return cut(process.stdout.decode("utf-8", "replace").removesuffix("\n"))


def _environment() -> Mapping[str, str]:
    inherited = ("PATH", "HOME", "LANG", "TZ", "XDG_CONFIG_HOME", "USER", "TMPDIR")
    return {
        **{name: os.environ[name] for name in inherited if name in os.environ},
        "LC_ALL": "C.UTF-8",
        "GIT_OPTIONAL_LOCKS": "0",  # do not write the index
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }
