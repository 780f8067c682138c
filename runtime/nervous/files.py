"""Programs for files whose words have a grammar of their own: `find`, `tar`, `sed`, `dd`, editors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from runtime.nervous import code
from runtime.nervous.programs import Line, Reader, chosen, effects, printed, sort_words
from runtime.nervous.values import ANY, INSIDE, NAME, NOTHING, UNTOLD, Stream, untold

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

_NARROWS = re.compile(
    r"-(?:i?name|i?path|wholename|i?regex|lname|[mac](?:time|min)|size|newer|empty|user|group|perm|inum|links|nouser)"
)
_EVERYTHING = ("*", ".*", "./*", "*.*", "?*")


def _find(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    words = [each for each in line.words if each not in ("-L", "-H", "-P", "-E", "-X")]
    end = next(
        (at for at, each in enumerate(words) if each[:1] == "-" or each in ("(", "!", ",")), len(words)
    )
    starts, rest = words[:end] or ["."], words[end:]
    either = "-o" in rest or "-or" in rest
    found = [_below(each) for each in starts]
    before = word = ""
    while rest:
        before, (word, *rest) = word, rest
        if _NARROWS.fullmatch(word):
            what = "" if word in ("-empty", "-nouser") or not rest else rest.pop(0)
            # all but some narrows nothing, and neither does what stands beside another choice
            if before not in ("!", "-not") and what not in _EVERYTHING and not (either and "-delete" in rest):
                name = what if word in ("-name", "-iname", "-path", "-ipath", "-wholename") else ""
                found = [_below(each, name or "?") for each in starts]
        elif word == "-delete":
            for path in found:
                shell.touch("delete", path, "removes", "recursive", program="find")
        elif word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n, each in enumerate(rest) if each in (";", "+")), len(rest))
            for path in found:
                shell.inner([each.replace("{}", path) for each in rest[:end]], UNTOLD)
            rest = rest[end + 1 :]
        elif word in ("-fprint", "-fprint0", "-fls", "-fprintf") and rest:
            shell.touch("write", rest[0], "writes", program="find")
    return Stream(None, shape=found[0] if len(found) == 1 else ANY)


def _fd(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    runs = ("-x", "-X", "--exec", "--exec-batch")
    end = next((at for at, each in enumerate(line.words) if each in runs), len(line.words))
    command = [each for each in line.words[end + 1 :] if each != ";"] or ["true"]
    if not any("{" in each for each in command):
        command.append("{}")
    for start in sort_words(line.program, line.words[:end], line.spec).operands[1:] or ["."]:
        path = _below(start, "?")
        shell.inner([re.sub(r"\{[./]{0,2}\}", path, each) for each in command], UNTOLD)
    return printed(shell, line, stdin)


def _below(start: str, name: str = "") -> str:
    """What `find` finds: all below a folder with the folder itself, or what is narrowed down by a name."""
    if not name:
        return start
    base = "" if start == "/" else start.rstrip("/")
    below = INSIDE if base == "." else f"{base}/{INSIDE}"
    last = name.rpartition("/")[2]
    return f"{below}/{last}" if last.strip("*?") else below


def _ls(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    first = (line.operands or ["."])[0]
    if re.search(r"[*?\[]", first):
        return Stream(None, shape=first if first.startswith(("/", "~", "..")) else INSIDE)
    every = line.has("-A", "-a", "--all", "--almost-all")
    return Stream(None, shape=first.rstrip("/") if every else f"{first.rstrip('/')}/*")


def _grep(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    effects(shell, line, stdin)
    if not line.has("-l", "-L", "--files-with-matches", "--files-without-match", "--files"):
        return printed(shell, line, stdin)
    outside = [each for each in line.operands[1:] if not shell.places.inside(shell.path(each))]
    return Stream(None, shape=outside[0] if outside else INSIDE)


def _tee(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    for each in line.operands:
        shell.write(each, stdin, append=line.has("-a", "--append"), program=line.program)
    return stdin


def _processes(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    wide = line.program != "pgrep" or line.has("-u", "-U", "-v")
    named = re.search(r"\w", "".join(line.operands))
    return Stream(None, shape=NAME if named and not wide else "*")


def _parent(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    first = "".join(line.operands[:1])
    parent = first.rstrip("/").rpartition("/")[0] or "."
    return Stream(None, shape=INSIDE) if untold(first) else Stream(f"{parent}\n")


def _dd(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    told = dict(each.split("=", 1) for each in line.words if "=" in each)
    source = told.get("if", "")
    known = shell.read(source, program="dd") if source else stdin
    if re.fullmatch(r"\d{1,4}", told.get("count", "")):
        known = Stream(known.text, known.tags - {"endless"}, known.shape)
    if "of" in told:
        shell.write(told["of"], known, program="dd")
    return known


def _sed(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    given = line.all("-e", "--expression")
    changes = any(re.match(r"-[a-zA-Z]*i|--in-place", each) for each in line.options)
    for each in line.operands if given or line.has("-f", "--file") else line.operands[1:]:
        shell.touch("write" if changes else "read", each, "changes" if changes else "reads", program="sed")
    for script in given or line.operands[:1]:
        at = r"(?:^|[;\n{])\s*(?:\d+|\$|/[^/]*/)?\s*"
        if hit := re.search(rf"{at}[wW]\s+(\S+)", script):
            shell.touch("write", hit[1], "writes", program="sed")
        runs = re.search(rf"{at}e(?:\s+(.+)|\s*$)", script)
        flag = re.search(r"s(.)(?:\\.|(?!\1).)*\1((?:\\.|(?!\1).)*)\1[gpiIm\d]*e", script)
        if runs or flag:
            shell.run_text((runs[1] if runs else flag[2] if flag else "") or ANY)
    return printed(shell, line, stdin)


def _awk(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    files = line.operands if line.has("-f", "--file") else line.operands[1:]
    if not line.has("-f", "--file"):
        code.follow(shell, "awk", "".join(line.operands[:1]))
    for each in [*files, *line.all("-f", "--file")]:
        if "=" not in each:
            shell.read(each, program="awk")
    return printed(shell, line, stdin)


def _tar(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    if line.words and not line.words[0].startswith("-"):  # tar xzf file
        line = sort_words("tar", [f"-{line.words[0]}", *line.words[1:]], line.spec)
    for text in line.all("--checkpoint-action"):
        if text.startswith("exec="):
            shell.run_text(text[5:])
            shell.hide("command", f"tar runs {text[5:]}")
    for text in line.all("--to-command", "-I", "--use-compress-program", "--rsh-command"):
        shell.hide("code", "what is unpacked is run") if text in ("sh", "bash") else shell.run_text(text)
    archive, base = line.value("-f", "--file"), line.value("-C", "--directory", "--one-top-level")
    if line.has("-x", "--extract", "--get"):
        known = shell.read(archive, program="tar") if archive and archive != "-" else stdin
        target = "/" if line.has("-P", "--absolute-names") else base or "."
        shell.touch("write", target, "unpacks to", "unpacks", program="tar")
        shell.fetched += [shell.path(target)] if "download" in known.tags else []
    elif line.has("-c", "-r", "-u", "-A", "--create", "--append"):
        for each in line.operands:
            path = f"{base}/{each}" if base and not each.startswith("/") else each
            shell.read(path, program="tar")
            if line.has("--remove-files"):
                shell.touch("delete", path, "removes", "recursive", program="tar")
        if archive and archive != "-":
            shell.write(archive, UNTOLD.tagged("file"), program="tar")
    return UNTOLD.tagged("file")


def _copies(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`cp`, `install`, `ln`: what is copied can be run under its new name; a link leads elsewhere."""
    target = line.value("-t", "--target-directory")
    sources = line.operands if target else line.operands[:-1]
    if line.program == "install" and line.has("-d", "--directory"):
        sources = []
        for each in line.operands:
            shell.touch("write", each, "makes", program=line.program)
    target = target or "".join(line.operands[-1:])
    for each in sources:
        known = shell.read(each, program=line.program)
        if each == "/dev/null":
            shell.touch("empty", target, "empties", program=line.program)
        shell.files[shell.path(target)] = known
        shell.files[shell.path(f"{target}/{each.rstrip('/').rpartition('/')[2]}")] = known
    if sources:
        shell.touch("write", target, "copies to", program=line.program)
    if line.program == "ln" and sources and line.has("-s", "--symbolic"):
        to = shell.path(sources[0])
        if not shell.places.inside(to):
            shell.places.links[shell.path(target)] = to
    return NOTHING


def _moves(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    into = line.value("-t", "--target-directory")
    sources, target = (line.operands, into) if into else (line.operands[:-1], "".join(line.operands[-1:]))
    for each in sources:
        shell.touch("delete", each, "moves away", "moved", program=line.program)
        if shell.path(each) in shell.files:
            shell.files[shell.path(target)] = shell.files[shell.path(each)]
    if sources:
        shell.touch("write", target, "moves to", program=line.program)
    return NOTHING


def _editor(shell: Shell, line: Line, stdin: Stream) -> Stream | None:
    """`vim -c '!x'`, `ex`, `ed` and `gdb` with commands."""
    texts = [*chosen(line, sorted(line.spec.values)), *(word[1:] for word in line.words if word[:1] == "+")]
    for text in [*texts, *(stdin.text or "").splitlines()]:
        if hit := re.match(
            r"\s*:?\s*(?:r|read|w|silent|sil|%|shell|call\s+system\()*\s*!?\s*(?:!|shell\s|system\()\s*(.+)",
            text,
        ):
            shell.run_text(hit[1].strip().strip("'\")(") if "system(" in text else hit[1].strip())
        elif hit := re.match(r"\s*:?\s*(lua|py)\w*\s+(.+)", text):
            code.follow(shell, {"lua": "lua", "py": "python"}[hit[1]], hit[2])
    if line.program != "gdb":
        for each in line.operands:
            shell.touch("write", each, "writes", program=line.program)
    return NOTHING


FILES: Mapping[str, Reader] = {
    "find": _find,
    "fd": _fd,
    "ls": _ls,
    "grep": _grep,
    "tee": _tee,
    "processes": _processes,
    "parent": _parent,
    "dd": _dd,
    "sed": _sed,
    "awk": _awk,
    "tar": _tar,
    "copy": _copies,
    "move": _moves,
    "editor": _editor,
}
"""These by what the table calls them."""
