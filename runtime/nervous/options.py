"""The words of a command sorted into options, their values, and operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_LONG_OF_ONE = frozenset(
    {"find", "java", "terraform", "ffmpeg", "openssl", "gcc", "go", "pwsh", "tofu", "dd"}
)
"""Programs whose options begin with one dash and are words."""
VALUED: Mapping[str, str] = {
    "git": "-C -c --git-dir --work-tree --namespace",
    "docker": "-H --host --context --config -l -v --volume --mount --name -e --env -w --workdir -u --user -p "
    "--publish --network --net --pid --ipc --cap-add --device --security-opt --userns --entrypoint --env- "
    "file -f --file --filter",
    "kubectl": "-n --namespace --context --kubeconfig --cluster --user -f --filename -l --selector -c "
    "--grace-period",
    "helm": "-n --namespace --kube-context --kubeconfig",
    "aws": "--profile --region --output --endpoint-url --query",
    "gcloud": "--project --zone --region --account",
    "gh": "-R --repo",
    "npm": "--prefix -w --workspace --registry --tag",
    "pip": "-r --requirement -i -t --target -c -e --editable --prefix --root ",
    "make": "-C -f -I -j -o -W --directory --file",
    "rm": "",
    "chmod": "--reference",
    "chown": "--reference --from",
    "cp": "-t --target-directory -S --suffix",
    "mv": "-t --target-directory -S --suffix",
    "ln": "-t --target-directory -S --suffix",
    "install": "-t --target-directory -m --mode -o --owner -g --group -S",
    "mkdir": "-m --mode",
    "touch": "-d --date -r --reference -t",
    "truncate": "-s --size -r --reference",
    "shred": "-n --iterations -s --size",
    "tar": "-f --file -C --directory -T --files-from -X --exclude-from --exclude --transform "
    "--strip-components --to-command --checkpoint-action --checkpoint "
    "-I --use-compress-program --owner --group --mode -K",
    "sed": "-e --expression -f --file -l",
    "grep": "-e --regexp -f --file -m --max-count -A -B -C --include --exclude --exclude-dir --color",
    "rg": "-e --regexp -f --file -g --glob -t -T -A -B -C -m --max-count --type",
    "awk": "-F -v -f --field-separator --assign --file",
    "sort": "-k --key -t -o --output -S -T --parallel",
    "head": "-n -c --lines --bytes",
    "tail": "-n -c --lines --bytes --pid -s",
    "cut": "-d -f -c -b",
    "curl": "-d --data --data-binary --data-raw --data-urlencode --data-ascii --json -F --form "
    "--form-string -T --upload-file -o --output -H --header -X --request -u --user -A "
    "--user-agent -e --referer -b --cookie -c --cookie-jar -x --proxy -m --max-time "
    "--connect-timeout --retry -w --write-out -K "
    "--config --cacert --cert -E --key --resolve --url --output-dir -Y -y -r --range --limit-rate "
    "--interface -C --create-file-mode -D --dump-header --unix-socket --netrc-file --retry-delay -z "
    "--time-cond --variable --stderr --trace",
    "wget": "-O --output-document -o --output-file -P --directory-prefix --post-data --post-file --body-data "
    "--body-file --method --header -U --user-agent -T --timeout -t --tries -i --input-file --user "
    "--password -a --load-cookies --limit-rate -w --wait -e --execute -A -R -D -I -X --use-askpass",
    "ssh": "-p -i -o -l -F -J -L -R -D -b -c -e -E -I -m -O -Q -S -W -w -B",
    "scp": "-P -i -o -F -l -c -S -J",
    "rsync": "-e --rsh --exclude --include --filter --files-from --rsync-path --port --bwlimit "
    "--log-file -f -T -B",
    "nc": "-p -e -c -w -s -i -x -X -q -o -I -O -P -T -V",
    "kill": "-s -n --signal",
    "pkill": "-u -U -g -P -t -s --signal --euid --uid",
    "killall": "-s --signal -u --user -y -o",
    "sqlite3": "-cmd -init -separator -nullvalue",
    "psql": "-c -d -h -p -U -f -v -o -L --command --dbname --host --port --username --file --set --output ",
    "mysql": "-e -h -u -P -D --execute --host --user --port --database -S --socket",
    "mongosh": "--eval --host --port -u -p --username --password",
    "redis-cli": "-h -p -a -n -u -i -r --user --pass --eval",
    "crontab": "-u",
    "read": "-p -n -N -t -d -u -i -a -A",
    "tee": "",
    "unzip": "-d -x -P",
    "split": "-b -l -n -a --bytes --lines --suffix-length --filter",
    "terraform": "-chdir -target -var -var-file",
    "python": "-c -m -W -X",
    "perl": "-e -E",
    "node": "-e --eval -p --print -r --require --import",
    "ruby": "-e -r -I -C",
    "php": "-r -d -c -f -S -t",
    "date": "-d --date -f -r -s --set",
    "openssl": "-in -out -k -pass -K -iv -keyout -days -connect -key -cert -newkey -subj -passin -passout ",
    "base64": "-w --wrap -i -o",
    "xxd": "-s -l -c -g -o",
    "zip": "-x -i -P -TT -b",
    "mount": "-t -o -L -U --bind",
    "apt-get": "-t -o -c",
    "systemctl": "-H -M -t --type -p -n -o",
    "useradd": "-u -g -G -d -s -c -e -p",
    "gpg": "-u -r -o --output --recipient --homedir --passphrase",
    "vim": "-c --cmd -S -u",
    "gdb": "-ex -x -iex -p",
    "twine": "-r --repository --repository-url -u -p --config-file",
    "cargo": "--manifest-path --target --features -p --package",
    "rclone": "--config",
    "socat": "",
    "7z": "",
}
_SAME = {"pip3": "pip", "podman": "docker", "nerdctl": "docker", "gawk": "awk", "mawk": "awk", "nawk": "awk"}
_SAME |= {
    "python3": "python",
    "python2": "python",
    "nodejs": "node",
    "egrep": "grep",
    "fgrep": "grep",
    "vi": "vim",
}
_SAME |= {
    "ncat": "nc",
    "netcat": "nc",
    "nc.traditional": "nc",
    "nc.openbsd": "nc",
    "gsed": "sed",
    "bsdtar": "tar",
}
_SAME |= {
    "apt": "apt-get",
    "gcp": "cp",
    "oc": "kubectl",
    "tofu": "terraform",
    "mongo": "mongosh",
    "nvim": "vim",
}
_SAME |= {
    "pnpm": "npm",
    "yarn": "npm",
    "mariadb": "mysql",
    "chgrp": "chown",
    "gtar": "tar",
    "ex": "vim",
    "view": "vim",
}


@dataclass
class Line:
    """A program with its words, and what they are."""

    program: str
    words: list[str]
    options: list[str] = field(default_factory=list)  # as rules name them: -r, -f, --force, --force=x
    values: list[tuple[str, str]] = field(default_factory=list)  # an option and its value
    operands: list[str] = field(default_factory=list)

    def value(self, *names: str) -> str:
        """The last value given to one of these options, "" when there is none."""
        return next((value for name, value in reversed(self.values) if name in names), "")

    def all(self, *names: str) -> list[str]:
        """Every value given to one of these options."""
        return [value for name, value in self.values if name in names]

    def has(self, *names: str) -> bool:
        """Whether one of these options is among the words."""
        return any(each in names or each.partition("=")[0] in names for each in self.options)


def family(program: str) -> str:
    """The name under which a program's options are known."""
    return _SAME.get(program, program)


_SETS: dict[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in VALUED.items()}


def line_of(program: str, words: Sequence[str]) -> Line:
    """Sort the words of a command; short options are taken apart: `-rf` is -r and -f."""
    line = Line(program, list(words))
    kind = family(program)
    valued = _SETS.get(kind, frozenset())
    single = kind in _LONG_OF_ONE
    ended = False
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if ended or len(word) < 2 or word[0] != "-":
            line.operands.append(word)
        elif word == "--":
            ended = True
        elif word.startswith("--") or single:
            name, equals, value = word.partition("=")
            line.options.append(word)
            if equals:
                line.values.append((name, value))
            elif word in valued and at < len(words):
                line.values.append((word, words[at]))
                at += 1
        else:
            at = _short(line, word, words, at, valued)
    return line


def _short(line: Line, word: str, words: Sequence[str], at: int, valued: frozenset[str]) -> int:
    line.options.append(word)
    if word in valued:  # such as -ex, or one letter
        if at < len(words):
            line.values.append((word, words[at]))
            return at + 1
        return at
    for index, letter in enumerate(word[1:], 1):
        option = f"-{letter}"
        if option != word:
            line.options.append(option)
        if option in valued:
            rest = word[index + 1 :]
            if rest:
                line.values.append((option, rest))
            elif at < len(words):
                line.values.append((option, words[at]))
                return at + 1
            break
    return at
