"""Which files a program reads, writes, removes or changes, and what it sends away, by its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from runtime.nervous import network
from runtime.nervous.options import Line, family
from runtime.nervous.sql import statements
from runtime.nervous.values import ANY, UNTOLD, Act, Stream, listed

if TYPE_CHECKING:
    from runtime.nervous.shell import Shell

_LOOKS = listed(
    "echo printf ls cd pwd which type whereis man help stat du df tree exit git pip pip3 npm yarn pnpm "
    "docker podman kubectl terraform make cargo go sleep kill pkill killall date seq expr find basename "
    "dirname realpath readlink systemctl service useradd usermod id whoami ssh-keygen pytest ruff mypy "
    "file"
)
"""Programs whose words are no files whose content they show."""
_FIRST_IS_NO_FILE = listed("grep rg sed awk jq yq tr ag ack perl openssl egrep fgrep")
ENDLESS = 100 * 1024**3
"""Bytes of nothing that fill a disk as well as those without an end."""
_PATHLIKE = re.compile(r"[./~]|[*?]")


def touched(shell: Shell, line: Line, stdin: Stream) -> None:
    """Note what a program does to files and hosts."""
    program = family(line.program)
    act = PROGRAMS.get(program)
    if act is not None:
        act(shell, line, stdin)
    elif program not in _LOOKS:
        _reads(shell, line)


def _reads(shell: Shell, line: Line, skip: int = 0) -> None:
    operands = line.operands
    if family(line.program) in _FIRST_IS_NO_FILE and not line.has(
        "-e", "-f", "--regexp", "--expression", "--file"
    ):
        skip = max(skip, 1)
    for each in operands[skip:]:
        if _PATHLIKE.search(each) or each.startswith("id_") or each.isidentifier():
            shell.read(each, program=line.program)
    for _, value in line.values:
        if "/" in value and "://" not in value:
            shell.read(value, program=line.program)
        elif value.startswith("@"):
            shell.read(value[1:], program=line.program)


def _removes(shell: Shell, line: Line, stdin: Stream) -> None:
    tags = ["recursive"] if line.has("-r", "-R", "--recursive") else []
    tags += ["forced"] if line.has("-f", "--force") else []
    for each in line.operands:
        shell.touch("delete", each, "removes", *tags, program=line.program)


def _shreds(shell: Shell, line: Line, stdin: Stream) -> None:
    for each in line.operands:
        shell.touch("delete", each, "overwrites for good", "shred", program=line.program)


def _truncates(shell: Shell, line: Line, stdin: Stream) -> None:
    size = line.value("-s", "--size")
    for each in line.operands:
        shell.touch(
            "empty" if size.lstrip("<") in ("0", "") or size.startswith("-") else "write",
            each,
            "truncates",
            program="truncate",
        )


def _moves(shell: Shell, line: Line, stdin: Stream) -> None:
    target = line.value("-t", "--target-directory")
    sources = line.operands if target else line.operands[:-1]
    target = target or (line.operands[-1] if line.operands else "")
    for each in sources:
        shell.touch("delete", each, "moves away", "moved", program=line.program)
    if sources:
        shell.touch("write", target, "moves to", program=line.program)
        if len(sources) == 1 and shell.path(sources[0]) in shell.files:
            shell.files[shell.path(target)] = shell.files[shell.path(sources[0])]


def _copies(shell: Shell, line: Line, stdin: Stream) -> None:
    target = line.value("-t", "--target-directory")
    sources = line.operands if target else line.operands[:-1]
    target = target or (line.operands[-1] if line.operands else "")
    if line.program == "install" and line.has("-d", "--directory"):
        sources, target = [], ""
        for each in line.operands:
            shell.touch("write", each, "makes", program=line.program)
    known = UNTOLD
    for each in sources:
        known = shell.read(each, program=line.program)
    if sources and target:
        if "/dev/null" in sources:
            shell.touch("empty", target, "empties", program=line.program)
        shell.touch("write", target, "copies to", program=line.program)
        whole = shell.path(target)
        shell.files[whole] = known
        shell.files[f"{whole}/{sources[-1].rstrip('/').rpartition('/')[2]}"] = known
    if line.program == "ln" and sources and line.has("-s", "--symbolic"):
        to = shell.path(sources[0])
        if not shell.places.inside(to):
            shell.places.links[shell.path(target)] = to


def _writes(shell: Shell, line: Line, stdin: Stream) -> None:
    for each in line.operands:
        shell.touch("write", each, "writes", program=line.program)


def _pipes(shell: Shell, line: Line, stdin: Stream) -> None:
    for each in line.operands:
        shell.touch("write", each, "makes", program="mkfifo")
        shell.files[shell.path(each)] = UNTOLD.tagged("piped")


def _tees(shell: Shell, line: Line, stdin: Stream) -> None:
    for each in line.operands:
        shell.write(each, stdin, append=line.has("-a", "--append"), program="tee")


def _changes(shell: Shell, line: Line, stdin: Stream) -> None:
    mode = line.operands[0] if line.operands else ""
    files = line.operands[0 if line.has("--reference") else 1 :]
    if line.program == "chmod" and re.match(r"-[rwxstugoa]+$", line.words[0] if line.words else ""):
        files = line.operands
    tags = [f"mode:{mode}"] + (["recursive"] if line.has("-R", "--recursive") else [])
    if re.fullmatch(
        r"0?[0-7]*7[0-7]?7|[ugo]*[ao][ugo]*\+?=?[rx]*w[rwx]*|\+w|0?[0-7]{2}[2367]", mode
    ) or mode in ("a=rwx", "ugo+rwx"):
        tags.append("open")
    if re.fullmatch(r"[4267]\d{3}|0[4267]\d{3}|[ugoa]*\+[rwxt]*s[rwxst]*", mode):
        tags.append("setuid")
    for each in files:
        shell.touch("change", each, f"{line.program} {mode} on", *tags, program=line.program)


def _size(text: str) -> int:
    """The bytes that `4M` or `10kB` says; 0 where that cannot be told."""
    hit = re.fullmatch(r"(\d+)([kKMGTPE]?)i?B?", text)
    return int(hit[1][:18]) * 1024 ** " kMGTPE".index(hit[2].replace("K", "k") or " ") if hit else 0


def _dd(shell: Shell, line: Line, stdin: Stream) -> None:
    source = next((each[3:] for each in line.words if each.startswith("if=")), "")
    known = shell.read(source, program="dd") if source else stdin
    told = dict(each.split("=", 1) for each in line.words if "=" in each)
    if re.match(r"/dev/(zero|u?random|full)$", source) and (
        "count" not in told or _size(told.get("bs", "512")) * _size(told["count"]) > ENDLESS
    ):
        known = known.tagged("endless")
    for each in line.words:
        if each.startswith("of="):
            shell.write(each[3:], known, program="dd")


def _sed(shell: Shell, line: Line, stdin: Stream) -> None:
    scripts = [*line.all("-e", "--expression")] or line.operands[:1]
    files = line.operands if line.all("-e", "--expression", "-f", "--file") else line.operands[1:]
    changes = any(re.match(r"-[a-zA-Z]*i|--in-place", each) for each in line.options)
    kept = next((each[2:] for each in line.words if re.match(r"-i[.~]", each)), "")
    for each in files:
        if changes:
            shell.touch("write", each, "changes", program="sed")
            shell.files |= {f"{shell.path(each)}{kept}": UNTOLD} if kept else {}
        else:
            shell.read(each, program="sed")
    for script in scripts:
        if hit := re.search(r"(?:^|[;\n{])\s*(?:\d+|\$|/[^/]*/)?\s*[wW]\s+(\S+)", script):
            shell.touch("write", hit[1], "writes", program="sed")
        runs = re.search(r"(?:^|[;\n{])\s*(?:\d+|\$|/[^/]*/)?\s*e(?:\s+(.+)|\s*$)", script)
        flag = re.search(r"s(.)(?:\\.|(?!\1).)*\1((?:\\.|(?!\1).)*)\1[gpiIm\d]*e", script)
        if runs or flag:
            from runtime.nervous.running import execute

            execute(shell, (runs[1] if runs else flag[2] if flag else "") or ANY)


def _tar(shell: Shell, line: Line, stdin: Stream) -> None:
    words = list(line.words)
    if words and not words[0].startswith("-"):  # tar xzf file
        from runtime.nervous.options import line_of

        line = line_of("tar", [f"-{words[0]}", *words[1:]])
    archive = line.value("-f", "--file")
    if line.has("-x", "--extract", "--get"):
        if archive:
            shell.read(archive, program="tar")
        target = line.value("-C", "--directory", "--one-top-level") or "."
        shell.touch("write", target, "unpacks to", "unpacks", program="tar")
        known = shell.files.get(shell.path(archive)) if archive and archive != "-" else stdin
        if known is not None and "download" in known.tags:
            shell.fetched.append(shell.path(target))
        if line.has("-P", "--absolute-names"):
            shell.touch("write", "/", "unpacks to", program="tar")
    elif line.has("-c", "-r", "-u", "-A", "--create", "--append"):
        known = UNTOLD
        for each in line.operands:
            base = line.value("-C", "--directory")
            shell.read(f"{base}/{each}" if base and not each.startswith("/") else each, program="tar")
        if line.has("--remove-files"):
            for each in line.operands:
                shell.touch("delete", each, "removes", "recursive", program="tar")
        if archive and archive != "-":
            shell.write(archive, known.tagged("file"), program="tar")


def _unzip(shell: Shell, line: Line, stdin: Stream) -> None:
    known = shell.files.get(shell.path(line.operands[0])) if line.operands else None
    if known is not None and "download" in known.tags:
        shell.fetched.append(shell.path(line.value("-d") or "."))
    shell.touch("write", line.value("-d") or ".", "unpacks to", "unpacks", program="unzip")


def _outputs(shell: Shell, line: Line, stdin: Stream) -> None:
    _reads(shell, line)
    for each in line.all("-o", "--output", "-O", "--output-document"):
        shell.touch("write", each, "writes", program=line.program)


# ---- the network -----------------------------------------------------------------------------------------


def _database(shell: Shell, line: Line, stdin: Stream) -> None:
    texts = [*line.all("-c", "--command", "-e", "--execute", "-cmd", "--eval")]
    words = line.operands
    if line.program == "sqlite3":
        if words and words[0] != ":memory:":
            shell.read(words[0], program="sqlite3")
        texts += words[1:]
    if stdin.text:
        texts.append(stdin.text)
    if "piped" in stdin.tags and stdin.text is None and not {"file", "download"} & stdin.tags:
        shell.note(Act("sql", line.program, tags=frozenset({"unknown"}), shown="SQL that is not known"))
    for each in [
        *line.all("-f", "--file"),
        *(t.removeprefix("path:") for t in stdin.tags if t.startswith("path:")),
    ]:
        texts.append(shell.places.script(shell.path(each)) or "")
    kept = words[:1] != [":memory:"]  # or there is nothing to lose
    for text in texts:
        if line.program == "sqlite3" and (hit := re.search(r"(?m)^\s*\.(?:shell|system)\s+(.+)", text)):
            from runtime.nervous.running import execute

            execute(shell, hit[1])
        for told, tags in statements(text) if kept else ():
            shell.note(Act("sql", line.program, text=told, tags=tags, shown=f"SQL: {told}"))


def _git(shell: Shell, line: Line, stdin: Stream) -> None:
    words = line.operands
    if words[:1] == ["clone"] and len(words) > 1:
        name = words[2] if len(words) > 2 else re.sub(r"\.git$", "", words[1].rstrip("/")).rpartition("/")[2]
        shell.touch("write", name, "clones to", program="git")
        shell.fetched.append(shell.path(name))
    if words[:1] == ["remote"] and len(words) > 3 and words[1] in ("add", "set-url"):
        shell.remotes[words[2]] = words[3]
    if words[:1] == ["push"] and len(words) > 1:
        where = shell.remotes.get(words[1], words[1])
        if re.search(r"://|@[\w.-]+:|^/|^\.\.", where):
            shell.send(where, UNTOLD.tagged("file"), "git")
    for value in line.all("-C", "--work-tree"):
        if words[:1] and words[0] in (
            "clean",
            "checkout",
            "reset",
            "restore",
            "rm",
            "pull",
            "merge",
            "stash",
        ):
            shell.touch("write", value, "changes files in", program="git")


def _containers(shell: Shell, line: Line, stdin: Stream) -> None:
    for value in line.all("-v", "--volume", "--mount"):
        pairs = [each.partition("=") for each in value.split(",")] if "=" in value else []
        parts: dict[str, str] = {name: worth for name, _, worth in pairs}
        source = parts.get("source") or parts.get("src") or value.partition(":")[0]
        if source.startswith(("/", "~", ".", ANY)):
            whole = shell.path(source)
            shown = f"gives a container {whole}"
            shell.note(Act("mount", line.program, (), whole, shell.places.sort(whole), shown=shown))
    for value in line.all("--env-file"):
        shell.read(value, program=line.program)
    if stdin.text:
        shell.note(Act("code", "container", text=stdin.text, shown=f"starts containers by: {stdin.text}"))


def _installs(shell: Shell, line: Line, stdin: Stream) -> None:
    for each in line.all("-t", "--target", "--prefix", "--root"):
        shell.touch("write", each, "installs to", program=line.program)


Program = Callable[["Shell", Line, Stream], None]
PROGRAMS: Mapping[str, Program] = {
    **dict.fromkeys(
        ("rm", "rmdir", "unlink", "trash", "trash-put", "gio-trash", "del", "rimraf", "srm"), _removes
    ),
    **dict.fromkeys(("shred", "wipe"), _shreds),
    **dict.fromkeys(("mv", "rename-file"), _moves),
    **dict.fromkeys(("cp", "install", "ln", "ditto", "link"), _copies),
    **dict.fromkeys(("touch", "mkdir", "mknod", "fallocate", "ed", "vim", "nano"), _writes),
    "mkfifo": _pipes,
    **dict.fromkeys(("tee", "sponge"), _tees),
    **dict.fromkeys(("chmod", "chown", "setfacl", "chattr", "chgrp", "chcon"), _changes),
    **dict.fromkeys(("scp", "rsync", "sftp", "rclone", "gsutil-cp"), network.remote_copy),
    **dict.fromkeys(
        ("dig", "nslookup", "host", "ping", "traceroute", "getent", "mail", "mailx", "sendmail"),
        network.looked_up,
    ),
    **dict.fromkeys(
        (
            "sqlite3",
            "psql",
            "mysql",
            "mongosh",
            "redis-cli",
            "duckdb",
            "sqlcmd",
            "clickhouse-client",
            "cqlsh",
        ),
        _database,
    ),
    **dict.fromkeys(("nc", "socat", "telnet"), network.nc),
    **dict.fromkeys(("sort", "gcc", "cc", "clang", "g++", "pandoc", "ffmpeg", "shuf"), _outputs),
    **dict.fromkeys(("unzip", "7z", "unrar"), _unzip),
    "truncate": _truncates,
    "dd": _dd,
    "sed": _sed,
    "tar": _tar,
    "curl": network.curl,
    "wget": network.wget,
    "git": _git,
    **dict.fromkeys(("docker", "docker-compose", "kubectl"), _containers),
    "openssl": network.openssl,
    "pip": _installs,
}
