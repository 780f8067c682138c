"""One simple command: the program that it runs in the end, behind builtins, wrappers and interpreters."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.safety import code
from runtime.safety.acts import ANY, ANYTHING, FETCHED, INFORMATION, NAME, NOTHING, Act, Stream, has_unknown
from runtime.safety.grammars import GRAMMARS
from runtime.safety.programs import Line, Program, effects, follow_code, printed, rest_of, sort_words
from runtime.safety.words import unescaped

if TYPE_CHECKING:
    from runtime.safety.shell import Shell

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_PRINTS = re.compile(r"\s*(?:print|puts|console\.log|echo)\s*\(?\s*(['\"])((?:(?!\1)[^\\])*)\1\s*\)?\s*;?\s*")
"""Code that prints one literal text."""


def run(shell: Shell, words: Sequence[str], stdin: Stream) -> Stream:
    """Follow one command with its words; returns what it prints."""
    shell.spend(1 + len(words) // 16)
    name = words[0]
    if name in shell.functions:
        return shell.call(name, words[1:], stdin)
    if name in shell.aliases and name not in shell.calling:
        shell.calling.append(name)
        try:
            return shell.run_text(f"{shell.aliases[name]} {shlex.join(words[1:])}", stdin, shell.positional)
        finally:
            shell.calling.pop()
    if has_unknown(name) or not name or (re.search(r"[*?]|.\[", name) and name != "[["):
        return _unknown(shell, words, stdin)
    if _ASSIGNMENT.fullmatch(name):
        return NOTHING  # what becomes an assignment only by expansion is no command that exists
    program = name.rstrip("/").rpartition("/")[2] or name
    spec = shell.table.of(program)
    line = sort_words(program, words[1:], spec)
    if (found := _builtin(shell, line, stdin)) is not None:
        return found
    shown = " ".join(["runs", program, *line.words])
    shell.note(Act("run", program, tuple(line.words), tags=stdin.sorts, shown=shown))
    if tuple(line.words) in INFORMATION:
        return NOTHING
    if "/" in name and not re.match(r"/(?:usr|bin|sbin|opt)/", name):
        _program_file(shell, name)
    elif name.endswith((".py", ".sh")) and shell.places.there(shell.path(name)):  # uv run x.py
        code.follow_file(shell, "python" if name.endswith(".py") else "shell", name)
    if line.operands[:1] in (["completion"], ["completions"], ["shellenv"]):
        return Stream("\n")  # settings for the shell that starts it
    follow_code(shell, line, stdin)
    _follow_unnamed(shell, line)
    if spec.how:
        found = GRAMMARS[spec.how](shell, line, stdin)
        if found is not None:
            return found
    if spec.runs and (not spec.verbs or not spec.verbs.isdisjoint(line.operands[:1])):
        return _follow_wrapped(shell, line, stdin)
    if spec.language:
        return _follow_interpreter(shell, line, stdin)
    return printed(shell, line, stdin, effects(shell, line, stdin))


def _follow_unnamed(shell: Shell, line: Line) -> None:
    """What a program runs of the folder although no word names it: `make` a Makefile, `npm test` a script."""
    for place in ("", *(f"{each}/" for each in line.all("-C", "--directory", "--prefix", "--cwd"))):
        for name in sorted(line.spec.starts):
            if shell.places.there(whole := shell.path(f"{place}{name}")):
                if name == "package.json":
                    _follow_package(shell, line, whole)
                else:
                    code.follow_file(shell, "make" if line.spec.how == "make" else "other", f"{place}{name}")


def _follow_package(shell: Shell, line: Line, path: str) -> None:
    """The scripts of a package.json that the words name, and those that run before and after them."""
    text = shell.places.script(path)
    try:
        scripts = json.loads(text or "")["scripts"]
        named = [f"{around}{word}" for word in line.operands for around in ("pre", "", "post")]
        for text in [scripts[name] for name in named if name in scripts]:
            shell.run_text(str(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        shell.hide("unread", f"the scripts of {path} cannot be read")


def _unknown(shell: Shell, words: Sequence[str], stdin: Stream) -> Stream:
    """A command whose name is known only when it runs."""
    if not words[0] and len(words) == 1:
        return NOTHING
    if FETCHED in words[0]:
        shell.hide("download", "what is fetched from elsewhere is run")
    shell.hide("command", f"which program {words[0] or 'an empty name'} means")
    for at, word in enumerate(words[1:4], 1):  # perhaps the unknown part is a wrapper, or is empty
        if shell.table.of(word).known and not word.startswith("-"):
            run(shell, words[at:], stdin)
    return ANYTHING


def _program_file(shell: Shell, name: str) -> None:
    """A program given by its path: a file of this line or of the folder is read."""
    whole = shell.path(name)
    inside = shell.places.inside(whole)
    text = shell.places.script(whole)
    if whole in shell.files or (text or "").startswith("#!") or not inside or text is None:
        if inside or shell.places.scratch(whole):
            code.follow_file(shell, "shell", name)
    elif any(whole.startswith(f"{each}/") for each in shell.fetched) and shell.places.new(whole):
        shell.hide("download", "what is fetched from elsewhere is run")


def _follow_wrapped(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """`sudo x`, `timeout 5 x`, `watch 'x y'`: the command behind the words of the program itself."""
    words, options = rest_of(line.words, line.spec.values)
    names = {name for name, _ in options}
    if line.program == "command" and names & {"-v", "-V"}:
        return Stream(None, shape=NAME)
    while words and words[0] in line.spec.verbs:
        words, _ = rest_of(words[1:], line.spec.values)
    if line.spec.runs == "text":
        return shell.run_text(" ".join(words), stdin) if words else NOTHING
    words = words[int(line.spec.runs) :]
    while words and (hit := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", words[0], re.DOTALL)):
        shell.assign(hit[1], [hit[2]])
        words.pop(0)
    if not words and names & {"-i", "-s", "--login"}:
        words = ["sh"]
    name = [re.sub(r"(?<=.)@[\w.^~-]+$", "", each) for each in words[:1]]  # npx name@version
    return shell.inner([*name, *words[1:]], stdin)


def _follow_interpreter(shell: Shell, line: Line, stdin: Stream) -> Stream:
    """Code in options of an interpreter, on its input, or in a file of this line or of the folder."""
    spec, language, words = line.spec, line.spec.language, line.words
    texts: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        name, _, value = word.partition("=")
        short = any(len(each) == 2 and re.fullmatch(rf"-[a-zA-Z0-9]*{each[1]}", word) for each in spec.eval)
        if name in spec.eval or (short and not re.match(r"-[IMWr].", word)):
            texts.append(value or (words[at] if at < len(words) else ""))
            at += not value
        elif language == "python" and re.fullmatch(r"-[a-zA-Z]*m", word):
            for end in (".py", "/__main__.py"):
                if shell.places.there(
                    shell.path(name := "".join(words[at : at + 1]).replace(".", "/") + end)
                ):
                    code.follow_file(shell, "python", name)
            return shell.inner(words[at:] or ["true"], stdin)
        elif word[:2] in spec.eval:
            texts += [word[2:]] if language != "node" else []
        elif word in spec.values:
            at += 1
        if texts and language == "python":
            break
    rest = words[at + (words[at : at + 1] == ["--"]) :]
    if language == "node" and words[:1] == ["eval"]:  # deno eval
        texts, rest = rest[1:2], []
    for text in texts:
        code.follow(shell, language, text, line.program)
    if not texts and any(each in ("-V", "--version", "-v", "-h", "--help") for each in words):
        return NOTHING
    if not texts and (not rest or rest[0] in ("-", "/dev/stdin")):
        code.feed(
            shell, language, ANYTHING.tagged("piped") if rest and stdin is ANYTHING else stdin, line.program
        )
    elif not texts and not re.match(r"https?://", rest[0]):
        code.follow_file(shell, language, rest[0], line.program)
    for argument in rest if texts else rest[1:]:
        if re.search(r"[./~]", argument) and "://" not in argument:
            shell.read(argument, program=language)
    for each in rest if line.has(*spec.edits) else ():
        shell.touch("write", each, program=language, shown="changes")
    plain = _PRINTS.fullmatch("".join(texts))
    return Stream(plain[2] + "\n") if plain else Stream(None, stdin.sorts)


_QUIET = (":", "true", "false", "test", "[", "[[", "wait", "return", "break", "continue")
_VALUED = frozenset(["-p", "-n", "-N", "-t", "-d", "-u", "-i", "-a", "-A"])
"""Options of `read` with a value."""


def _builtin(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """Follow a builtin of the shell; None for any other program."""
    words = line.words
    match line.program:
        case "cd" | "pushd" | "popd":
            before, target = shell.cwd, line.operands[0] if line.operands else "~"
            if line.program == "popd":
                shell.cwd = shell.places.folder
            else:
                by_path = target != "-"
                shell.cwd = shell.path(target) if by_path else "".join(shell.variables.get("OLDPWD", [ANY]))
            shell.variables["OLDPWD"] = [before]
        case "source" | ".":
            if words[:1] in (["/dev/stdin"], ["-"]):
                code.feed(shell, "shell", stdin, "source")
            elif words:
                code.follow_file(shell, "shell", words[0])
            return ANYTHING
        case "export" | "declare" | "typeset" | "local" | "readonly":
            for word in line.operands:
                if hit := _ASSIGNMENT.fullmatch(word):  # after expansion: `export $x=…`
                    shell.assign(hit[1], [hit[2]])
            return NOTHING if line.operands else ANYTHING.tagged("environment")
        case "mapfile" | "readarray":
            name = line.operands[-1] if line.operands else "MAPFILE"
            shell.assign(name, [stdin.shape] if stdin.text is None else stdin.text.splitlines()[:64] or [""])
        case "hash" | "enable":  # `hash -p FILE NAME` and `enable -f FILE NAME` rename a program
            if line.has("-p", "-f"):
                shown = f"{line.program} {' '.join(words)}"
                shell.note(Act("set", text="PATH", words=(".",), shown=shown))
        case "shopt":
            if "dotglob" in line.operands and line.has("-s"):
                shell.variables["dotglob"] = ["on"]
        case "eval":
            return shell.run_text(" ".join(words), stdin, shell.positional) if words else NOTHING
        case "trap":
            shell.traps += [each for each in line.operands[:1] if each not in ("-", "")]
        case "alias":
            for name, _, text in (word.partition("=") for word in line.operands if "=" in word):
                shell.aliases[name] = text
                shell.run_text(text)
        case "set" if words[:2] == ["+o", "history"]:
            return None
        case "set":
            if "--" in words:
                shell.positional = tuple(words[words.index("--") + 1 :])
            elif words and words[0][:1] not in "-+":
                shell.positional = tuple(words)
            return NOTHING if words else ANYTHING.tagged("environment")
        case "shift":
            number = "".join(line.operands[:1])
            shell.positional = shell.positional[int(number) if re.fullmatch(r"\d{1,3}", number) else 1 :]
        case "read":
            _read(shell, sort_words("read", words, Program(_VALUED)), stdin)
        case "printf":
            return _printf(shell, list(words))
        case "echo":
            flags = ""
            while words and re.fullmatch(r"-[neE]+", words[0]):
                flags, words = flags + words[0], words[1:]
            text = " ".join(words)
            return Stream((unescaped(text) if "e" in flags else text) + ("" if "n" in flags else "\n"))
        case "unset":
            for name in line.operands:
                shell.variables.pop(name, None)
                shell.note(Act("set", text=name, tags=frozenset({"unset"}), shown=f"unsets {name}"))
        case "pwd":
            return Stream(shell.cwd + "\n")
        case name:
            return NOTHING if name in _QUIET else None
    return NOTHING


def _read(shell: Shell, line: Line, stdin: Stream) -> None:
    first = None if stdin.text is None else stdin.text.partition("\n")[0]
    if array := line.value("-a", "-A"):
        shell.assign(array, ([stdin.shape] if first is None else first.split()) or [""])
        return
    names = line.operands or ["REPLY"]
    parts = [] if first is None else first.split(None, len(names) - 1)
    for at, each in enumerate(names):
        shell.assign(each, [stdin.shape if first is None else parts[at] if at < len(parts) else ""])


def _printf(shell: Shell, words: list[str]) -> Stream:
    into = words[1] if words[:1] == ["-v"] and len(words) > 2 else ""
    words = words[2:] if into else words[words[:1] == ["--"] :]
    out: list[str] = []
    form, values = (unescaped(words[0]), words[1:]) if words else ("", [])
    parts = re.split(r"%([sbqd%])", form)  # text, directive, text, …
    is_known = not any("%" in part for part in parts[::2])
    while True:
        for at, part in enumerate(parts):
            if at % 2 == 0 or part == "%":
                out.append(part)
            else:
                text = values.pop(0) if values else ""
                out.append(unescaped(text) if part == "b" else text)
        if not values or len(parts) == 1 or len(out) > 500:
            break
    if into:
        shell.assign(into, ["".join(out) if is_known else ANY])
    return NOTHING if into else Stream("".join(out)) if is_known else ANYTHING
