"""Commits what a run has changed: on the branch of its worktree, with the identity of the user.

Git runs outside the sandbox here, so it gets no setting, hook or filter of the repository. Nothing is pushed,
and no branch but the run's own is touched.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime.sandbox import programs
from runtime.sandbox.changes import notable
from runtime.sandbox.checkout import Checkout, ignored_by_user, setting
from runtime.sandbox.context import OperationContext
from runtime.sandbox.ignored import Ignored
from runtime.sandbox.snapshot import Snapshots
from runtime.secrets.redaction import redact
from runtime.text.shown import shown_name

BRANCH = "fractal/"
"""What the names of the branches begin with; the run's id follows."""
TRAILER = "Fractal-Run"
LONGEST = 5_000
"""Characters of a message."""
SECONDS = 60.0
SHOWN = 20
"""Files that a result names."""
_TRAILERS = re.compile(r"\n\n(?:[A-Za-z][\w-]*: .*\n?)+\Z")
_HOW = "commits are off; a person allows them in fractal.yaml: operations: {git: {commit: true}}"
_WHERE = "commits are made in the worktree of a run; start it with --worktree"


async def commit_of_run(ctx: OperationContext, message: str, path: str) -> Result:
    """Commit what the run has changed, or what of it lies below a path."""
    settings = ctx.settings.get("git", {})
    if settings.get("commit") is not True:
        raise OperationFailed(_HOW)
    text = redact(message).strip()
    if not text or len(text) > LONGEST or "\0" in text:
        raise OperationFailed(f"message: say in 1 to {LONGEST:,} characters what the commit changes and why")
    run, checkout = _worktree(ctx)
    program = programs.program("git", ctx.folder)
    if program is None:
        raise OperationFailed("git is not installed")
    if checkout.filters(program):
        raise OperationFailed("the repository names a filter, such as Git LFS, which is not run here")
    below = _below(ctx, path) if path else ""
    with ExitStack() as stack:
        variables = stack.enter_context(checkout.unconfigured(program, ignored_by_user(program)))

        def git(*words: str, stdin: bytes = b"", **more: str) -> str:
            ended = programs.run(
                [program, *words], ctx.folder, {**variables, **more}, stdin=stdin, timeout=SECONDS
            )
            if ended.returncode:
                said = ended.stderr.decode("utf-8", "replace").strip()
                raise OperationFailed(f"git {words[0]}: {said[:1000]}")
            return ended.stdout.decode("utf-8", "replace").strip()

        identity = _identity(program, checkout)
        tip = await asyncio.to_thread(_branch, git, run)
        paths = await asyncio.to_thread(_changed, ctx, run, below)
        await asyncio.to_thread(_stage, git, tip, paths)
        if settings.get("hooks") is True:
            await _pre_commit(ctx, checkout)
        return await asyncio.to_thread(_commit, git, run, tip, text, identity)


def _worktree(ctx: OperationContext) -> tuple[str, Checkout]:
    """The id of the run and the checkout of its worktree."""
    folder = ctx.folder.resolve()
    checkout = Checkout.around(folder)
    ours = folder.parts[-3:-1] == ("state", "worktrees") and isinstance(ctx.snapshots, Snapshots)
    linked = checkout is not None and checkout.top == folder and checkout.git != checkout.common
    if checkout is None or not ours or not linked:
        raise OperationFailed(_WHERE)
    return folder.name, checkout


def _identity(program: str, checkout: Checkout) -> Mapping[str, str]:
    """The variables that say who commits: the user, as the repository or the user's own settings say."""
    found: dict[str, str] = {}
    for part in ("name", "email"):
        value = os.environ.get(f"GIT_AUTHOR_{part.upper()}") or setting(program, checkout, f"user.{part}")
        if not value:
            raise OperationFailed(f"git does not know who you are; set user.{part} with git config --global")
        found |= {f"GIT_AUTHOR_{part.upper()}": value, f"GIT_COMMITTER_{part.upper()}": value}
    return found


Git = Callable[..., str]


def _branch(git: Git, run: str) -> str:
    """The commit that the next one follows. The worktree is on the branch of the run if there is one."""
    ref = f"refs/heads/{BRANCH}{run}"
    on = git("rev-parse", "--symbolic-full-name", "HEAD")
    if on not in ("HEAD", ref):
        raise OperationFailed(f"the worktree is on {on}; only commits on {BRANCH}{run} are made here")
    if on == "HEAD" and git("for-each-ref", "--format=%(refname)", ref):
        git("symbolic-ref", "HEAD", ref)  # a process died between the two
    return git("rev-parse", "--verify", "HEAD^{commit}")


def _changed(ctx: OperationContext, run: str, below: str) -> list[str]:
    """The files that the run has changed and that git does not ignore."""
    snapshots = ctx.snapshots
    assert isinstance(snapshots, Snapshots)
    first, now = snapshots.first(run), snapshots.take(run)
    if not first or not now:
        raise OperationFailed("what the run has changed is not known, so nothing is committed")
    ignored = Ignored(ctx.folder)
    return [
        path
        for path in notable(snapshots.trees.changes(first, now))
        if (not below or below == "." or path == below or path.startswith(f"{below}/"))
        and not (ctx.folder / path).is_dir()
        and not ignored.within(path)
    ]


def _below(ctx: OperationContext, path: str) -> str:
    """The path within the folder of the run. What is read elsewhere, such as a draft, is in no commit."""
    try:
        return ctx.readable(path).relative_to(ctx.folder.resolve()).as_posix()
    except ValueError:
        raise OperationFailed(f"{path}: outside the folder of the run, so no commit has it") from None


def _stage(git: Git, tip: str, paths: list[str]) -> None:
    """Let the index hold these files and else the tip: a commit that was refused has left what it staged."""
    git("read-tree", tip)
    listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
    git("update-index", "--add", "--remove", "-z", "--stdin", stdin=listed)


async def _pre_commit(ctx: OperationContext, checkout: Checkout) -> None:
    """Run the hook of the repository, in the sandbox, where it can change nothing."""
    hook = checkout.common / "hooks" / "pre-commit"
    if not (hook.is_file() and os.access(hook, os.X_OK)):
        return
    ran = await ctx.run([str(hook)], timeout=SECONDS, read_only=True, network=False)
    if ran.exit or ran.timed_out:
        raise OperationFailed(f"the hook pre-commit refused it:\n{ran.marked(ran.shown, SECONDS)}")


def _commit(git: Git, run: str, tip: str, text: str, identity: Mapping[str, str]) -> Result:
    tree = git("write-tree")
    if tree == git("rev-parse", f"{tip}^{{tree}}"):
        return Result("nothing to commit: the branch has all that changed", evidence={"commit": tip})
    trailed = f"{text}\n{'' if _TRAILERS.search(text) else chr(10)}{TRAILER}: {run}\n"
    made = git("commit-tree", tree, "-p", tip, stdin=trailed.encode(), **identity)
    ref = f"refs/heads/{BRANCH}{run}"
    on_branch = git("rev-parse", "--symbolic-full-name", "HEAD") == ref
    git("update-ref", ref, made, tip if on_branch else "0" * len(tip))
    git("symbolic-ref", "HEAD", ref)
    files = git("diff-tree", "-r", "--no-renames", "--name-only", "-z", tip, made).split("\0")[:-1]
    more = [f"… {len(files) - SHOWN} more"] if len(files) > SHOWN else []
    lines = [f"{made[:10]} on the branch {BRANCH}{run}", *map(shown_name, files[:SHOWN]), *more]
    return Result("\n".join(lines), evidence={"commit": made, "branch": f"{BRANCH}{run}"})
