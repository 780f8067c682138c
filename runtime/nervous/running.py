"""One simple command: what it runs in the end, behind wrappers, interpreters and names of its own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.nervous import wrappers
from runtime.nervous.options import Line, line_of
from runtime.nervous.outputs import printed_by
from runtime.nervous.scripts import LANGUAGES, code, interpreter
from runtime.nervous.touching import touched
from runtime.nervous.values import ANY, FETCHED, INSIDE, NAME, NOTHING, UNTOLD, Act, Stream, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash", "csh", "tcsh", "yash", "pwsh")
_VALUES = {"-O", "+O", "-o", "+o", "--rcfile", "--init-file"}


def run(shell: Shell, words: Sequence[str], stdin: Stream) -> Stream:
    """Follow one command with its words; returns what it prints."""
    shell.found.spend(1 + len(words) // 16)
    name = words[0]
    if name in shell.functions:
        return _function(shell, words, stdin)
    if name in shell.aliases and name not in shell.calling:
        return _aliased(shell, words, stdin)
    if untold(name) or not name:
        return _unknown(shell, words, stdin)
    if any(each in name for each in "*?[") and name not in ("[", "[["):
        shell.hide("command", f"which program {name} means")
        name = _guessed(name)
    program = name.rstrip("/").rpartition("/")[2]
    if program == "time" or (program == "." and name != "."):
        program = name
    if re.fullmatch(r"[A-Za-z_]\w*\+?=.*", name, re.DOTALL) and "/" not in name.partition("=")[0]:
        return NOTHING  # what looks like an assignment after expansion is no command that exists
    line = line_of(program, list(words[1:]))
    if program in ("cd", "pushd", "popd"):
        return _cd(shell, line, program)
    if program in BUILTINS:
        found = BUILTINS[program](shell, line, stdin)
        if found is not None:
            return found
    if (inner := wrappers.unwrap(shell, line, stdin)) is not None:
        return inner
    if program in SHELLS:
        return _shell(shell, line, stdin)
    if language := interpreter(program):
        _note(shell, line, stdin)
        return code(shell, language, line, stdin)
    if "/" in name and not name.startswith(("/usr/", "/bin/", "/sbin/", "/opt/")):
        _program_file(shell, name, list(words[1:]), stdin)
    _note(shell, line, stdin)
    touched(shell, line, stdin)
    return printed_by(shell, line, stdin)


def _note(shell: Shell, line: Line, stdin: Stream) -> None:
    told = " ".join([line.program, *line.words])
    tags = frozenset(each for each in stdin.tags if not each.startswith("path:"))
    shell.note(Act("run", line.program, tuple(line.words), tags=tags, shown=f"runs {told}"))


def _unknown(shell: Shell, words: Sequence[str], stdin: Stream) -> Stream:
    """A command whose name is known only when it is run."""
    if words[0] == "" and len(words) == 1:
        return NOTHING
    if FETCHED in words[0]:
        shell.hide("download", "what is fetched from elsewhere is run")
    shell.hide("command", f"which program {words[0] or 'an empty name'} means")
    for at, word in enumerate(words[1:], 1):  # perhaps the unknown part is a wrapper, or is empty
        if not word.startswith("-") and not untold(word) and at < 4:
            line = line_of(word.rpartition("/")[2], list(words[at + 1 :]))
            if line.program in ("rm", "sh", "bash", "dd", "chmod", "chown", "mv"):
                run(shell, words[at:], stdin)
    return UNTOLD


def _guessed(name: str) -> str:
    from runtime.nervous.places import could_match

    last = name.rpartition("/")[2]
    known = (
        "rm",
        "sh",
        "bash",
        "dd",
        "cat",
        "nc",
        "curl",
        "wget",
        "python3",
        "perl",
        "chmod",
        "chown",
        "shred",
    )
    return next((each for each in known if could_match(last, each)), name)


def _function(shell: Shell, words: Sequence[str], stdin: Stream) -> Stream:
    source, body = shell.functions[words[0]]
    if shell.calling.count(words[0]) > 2 or len(shell.calling) > 12:
        return UNTOLD
    saved = shell.source, shell.positional
    shell.source, shell.positional = source, tuple(words[1:])
    shell.calling.append(words[0])
    try:
        return shell.walk(body, stdin)
    finally:
        shell.calling.pop()
        shell.source, shell.positional = saved


def _aliased(shell: Shell, words: Sequence[str], stdin: Stream) -> Stream:
    shell.calling.append(words[0])
    try:
        return execute(shell, f"{shell.aliases[words[0]]} {shlex.join(words[1:])}", stdin, shell.positional)
    finally:
        shell.calling.pop()


def _cd(shell: Shell, line: Line, program: str) -> Stream:
    if program == "popd":
        shell.cwd = shell.places.folder
        return NOTHING
    target = line.operands[0] if line.operands else "~"
    before = shell.cwd
    if target == "-":
        shell.cwd = " ".join(shell.variables.get("OLDPWD", ((ANY,),))[0])
    else:
        shell.cwd = shell.path(target)
    shell.variables["OLDPWD"] = ((before,),)
    return NOTHING


# ---- shells ----------------------------------------------------------------------------------------------


def _shell(shell: Shell, line: Line, stdin: Stream) -> Stream:
    words = line.words
    at = 0
    given = False
    while at < len(words) and words[at][:1] in "-+" and words[at] not in ("-", "--"):
        word = words[at]
        if word in _VALUES:
            if word in ("--rcfile", "--init-file") and at + 1 < len(words):
                script(shell, words[at + 1], [])
            at += 1
        elif not word.startswith("--") and "c" in word[1:]:
            given = True
        elif re.fullmatch(r"-[a-z]*i[a-z]*|--interactive", word) and "download" in stdin.tags:
            shell.hide("download", "a shell is given to somebody elsewhere")
        at += 1
    if at < len(words) and words[at] in ("-", "--"):
        at += 1
    rest = words[at:]
    _note(shell, line, stdin)
    with shell.apart():
        if given:
            printed = execute(shell, rest[0], stdin, rest[2:]) if rest else NOTHING
        elif rest and "-s" not in words[:at]:
            printed = script(shell, rest[0], rest[1:], stdin)
        else:
            printed = fed(shell, stdin).tagged("shell")
    return printed


def execute(shell: Shell, text: str, stdin: Stream = UNTOLD, positional: Sequence[str] = ()) -> Stream:
    """A text that is run as shell."""
    if text.strip() == FETCHED:
        shell.hide("download", "what is fetched from elsewhere is run")
        return UNTOLD
    if text.strip() in UNKNOWNS:
        shell.hide("code", "what is run as code is not known")
        return UNTOLD
    return shell.line(text, stdin, positional)


UNKNOWNS = (ANY, NAME, INSIDE)


def fed(shell: Shell, stdin: Stream) -> Stream:
    """A shell that reads what it runs from its input."""
    if stdin.text is not None:
        return execute(shell, stdin.text)
    if "download" in stdin.tags:
        shell.hide("download", "what is fetched from elsewhere is run")
    elif files := [each.removeprefix("path:") for each in stdin.tags if each.startswith("path:")]:
        for each in files:
            script(shell, each, [])
    else:
        shell.hide("code", "a shell runs what it is handed, and that is not known")
    return UNTOLD


def script(shell: Shell, path: str, positional: Sequence[str], stdin: Stream = UNTOLD) -> Stream:
    """A file that is run as shell: written by this line, or one of the folder that can be looked at."""
    if path in ("/dev/stdin", "/proc/self/fd/0", "/dev/fd/0", "-"):
        return fed(shell, stdin)
    if untold(path) and not path.startswith(INSIDE):
        shell.hide("command", f"which script {path} is")
        return UNTOLD
    whole = shell.path(path)
    if whole in shell.files:
        return fed(shell, shell.files[whole])
    if any(whole.startswith(f"{each}/") for each in shell.fetched) and shell.places.new(whole):
        shell.hide("download", "what is fetched from elsewhere is run")
    if not shell.places.inside(whole) and whole.startswith(("/dev/", "/proc/")):
        shell.hide("code", f"what is run from {whole} is not known")
    shell.touch("read", path, "runs", "run")
    text = shell.places.script(whole)
    if text is None:
        return UNTOLD
    first = text.split("\n", 1)[0]
    if first.startswith("#!") and not re.search(r"\b(?:ba|da|z|k|a)?sh\b", first):
        return UNTOLD
    loose, shell.loose = shell.loose, True
    try:
        return shell.line(text, stdin, positional)
    finally:
        shell.loose = loose


def _program_file(shell: Shell, name: str, words: list[str], stdin: Stream) -> None:
    """A program named by its path: one of this line or of the folder is looked into."""
    whole = shell.path(name)
    if whole in shell.files:
        stream = shell.files[whole]
        if stream.text is not None and stream.text.startswith("#!"):
            _by_shebang(shell, stream.text)
        else:
            fed(shell, stream)
        return
    if any(whole.startswith(f"{each}/") for each in shell.fetched) and shell.places.new(whole):
        shell.hide("download", "what is fetched from elsewhere is run")
    if not shell.places.inside(whole):
        if shell.places.scratch(whole):
            shell.hide("code", f"what {whole} does is not known")
        return
    text = shell.places.script(whole)
    if text and text.startswith("#!"):
        loose, shell.loose = shell.loose, True
        try:
            _by_shebang(shell, text)
        finally:
            shell.loose = loose


def _by_shebang(shell: Shell, text: str) -> None:
    first = text.split("\n", 1)[0]
    if re.search(r"\b(?:ba|da|z|k|a)?sh\b", first):
        with shell.apart():
            shell.line(text)
    elif hit := re.search(r"\b(" + "|".join(LANGUAGES) + r")[\d.]*\b", first):
        from runtime.nervous.scripts import body

        body(shell, interpreter(hit[1]) or "", text)


# ---- what belongs to the shell itself -------------------------------------------------------------------


def _eval(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    return execute(shell, " ".join(line.words), stdin, shell.positional) if line.words else NOTHING


def _source(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    return script(shell, line.words[0], line.words[1:], stdin) if line.words else NOTHING


def _trap(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if line.operands and line.operands[0] not in ("-", ""):
        shell.traps.append(line.operands[0])
    return NOTHING


def _alias(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for word in line.operands:
        _, equals, text = word.partition("=")
        if equals:
            shell.aliases[word.partition("=")[0]] = text
            execute(shell, text)
    return NOTHING


def _set(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = line.words
    if "--" in words:
        shell.positional = tuple(words[words.index("--") + 1 :])
    elif words and words[0][:1] not in "-+":
        shell.positional = tuple(words)
    return NOTHING if words else UNTOLD.tagged("environment")


def _shift(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    count = line.operands[0] if line.operands else "1"
    shell.positional = shell.positional[int(count) if count.isdigit() and len(count) < 4 else 1 :]
    return NOTHING


def _read(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    names = line.operands or ["REPLY"]
    whole = stdin.text
    value = ANY if whole is None else whole.partition("\n")[0]
    shape = stdin.shape if whole is None else ANY
    array = line.value("-a", "-A")
    if array:
        shell.assign(array, (tuple(value.split()) or ("",),))
        return NOTHING
    if len(names) == 1:
        shell.assign(names[0], ((value if whole is not None else shape,),))
    else:
        by = " ".join(shell.variables.get("IFS", ((" \t\n",),))[0])
        parts = re.split(f"[{re.escape(by)}]+", value.strip(), maxsplit=len(names) - 1) if by else [value]
        for at, each in enumerate(names):
            shell.assign(each, ((ANY if whole is None else parts[at] if at < len(parts) else "",),))
    return NOTHING


def _mapfile(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    name = line.operands[-1] if line.operands else "MAPFILE"
    lines = [ANY] if stdin.text is None else stdin.text.splitlines()
    shell.assign(name, (tuple(lines) or ("",),))
    return NOTHING


def _printf(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if line.words[:1] == ["-v"] and len(line.words) > 2:
        printed = printed_by(shell, line_of("printf", line.words[2:]), stdin)
        shell.assign(line.words[1], ((printed.text if printed.text is not None else ANY,),))
        return NOTHING
    return None


def _export(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for word in line.words:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"\w+\+?", name):
            shell.assign(name.rstrip("+"), ((value,),))
    return UNTOLD.tagged("environment") if not line.operands else NOTHING


def _nothing(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    return NOTHING


BUILTINS = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "alias": _alias,
    "set": _set,
    "shift": _shift,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "printf": _printf,
    "export": _export,
    "declare": _export,
    "typeset": _export,
    "local": _export,
    "readonly": _export,
    ":": _nothing,
    "true": _nothing,
    "false": _nothing,
    "test": _nothing,
    "[": _nothing,
    "wait": _nothing,
    "return": _nothing,
    "break": _nothing,
    "continue": _nothing,
}

__all__ = ["Act", "execute", "fed", "run", "script"]
