"""Prepares text for display: shows control characters, redacts secrets, cuts long texts.

There is one redactor: `redact`. It knows a secret by its value (`learn_secret`, and the environment), and by
its form. `kernel.store.exact` uses the same one for what a run has to read again.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from kernel.document.escaping import BIDI, TAGS
from kernel.errors import ConfigurationError

_CONTROLS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
}
_UNSEEN = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff{BIDI}{TAGS}]")
_LONE_RETURN = re.compile(r"\r(?!\n)")

HIDDEN = re.compile(r"(\[redacted [^\[\]\n]{1,80}) ([0-9a-f]{10})\]")
"""What stands in the place of a secret in what a run stores: its name, and the ID of its value."""
PIECE = 12
"""Characters of a reply that are shown at once while it is written."""
LEAST = 8
"""Minimum characters of a known secret: shorter values occur in ordinary words."""
Mark = Callable[[str, str], str]
"""What stands in the place of a secret, from its name and its value."""

_SECRET_NAME = re.compile(
    r"(?i)(?:^|_)(?:api|access|secret|private|auth|client|pg|redis|mysql|db)?_?"
    r"(?:keys?|tokens?|secrets?|passw(?:or)?d|passphrase|pass|pwd|credentials?|authorization|cookie)(?:_|\d*$)"
    r"|(?:^|_)(?:auth|pat|sk|salt|webhook(?:_url)?|(?:signing|unseal)(?:_\w+)?)_?\d*$|^sshpass$"
)
_NOT_SECRET = re.compile(r"(?i)_(?:path|file|dir|sock|name|home)$|^(?:KEYBOARD|KEYMAP|PWD$|OLDPWD$)")
_SHAPES: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("sk-", "API key", re.compile(r"(?<![\w-])sk-(?=[\w-]{0,200}\d)[\w-]{20,}")),
    ("gh", "GitHub token", re.compile(r"(?<![A-Za-z0-9])gh[oprsu]_[A-Za-z0-9]{30,}")),
    ("github_pat_", "GitHub token", re.compile(r"github_pat_\w{22,}")),
    ("gl", "GitLab token", re.compile(r"(?<![A-Za-z0-9])gl(?:pat|dt|rt|ptt|cbt|soat|agent)-[\w-]{20,}")),
    ("A", "AWS key", re.compile(r"(?<![A-Za-z0-9])A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}(?![0-9A-Z])")),
    ("xox", "Slack token", re.compile(r"xox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("xapp-", "Slack token", re.compile(r"(?<![A-Za-z0-9])xapp-\d-[A-Za-z0-9-]{10,}")),
    ("hooks.slack.com/", "Slack address", re.compile(r"(?<=hooks\.slack\.com/)services/[\w/-]{20,}")),
    ("/api/webhooks/", "webhook", re.compile(r"(?<=/api/webhooks/)\d{10,}/[\w-]{20,}")),
    ("AIza", "Google key", re.compile(r"AIza[\w-]{35}")),
    ("ya29.", "Google token", re.compile(r"(?<![A-Za-z0-9])ya29\.[\w-]{20,}")),
    ("GOCSPX-", "Google secret", re.compile(r"GOCSPX-[\w-]{20,}")),
    ("hf_", "Hugging Face token", re.compile(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}")),
    ("npm_", "npm token", re.compile(r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}")),
    ("pypi-", "PyPI token", re.compile(r"pypi-AgE[\w-]{50,}")),
    ("_", "API key", re.compile(r"(?<![A-Za-z0-9])(?:gsk|r8|tgp_v1|pat|key)_(?=\w{0,80}\d)[A-Za-z0-9]{32,}")),
    ("_", "Stripe key", re.compile(r"(?<![A-Za-z0-9])(?:[srp]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}")),
    (
        "_",
        "token",
        re.compile(r"(?<![A-Za-z0-9])(?:shp(?:at|ca|pa|ss)|dop_v1|lin_api|ntn|figd|sntrys)_[\w-]{20,}"),
    ),
    (
        "-",
        "API key",
        re.compile(r"(?<![A-Za-z0-9])(?:xai|pplx|tvly|nvapi|csk|fc)-(?=[\w-]{0,80}\d)[\w-]{20,}"),
    ),
    ("SG.", "SendGrid key", re.compile(r"(?<![A-Za-z0-9])SG\.[\w-]{16,}\.[\w-]{16,}")),
    ("dckr_pat_", "Docker token", re.compile(r"dckr_pat_[\w-]{20,}")),
    ("hvs.", "Vault token", re.compile(r"(?<![A-Za-z0-9])hvs\.[\w-]{20,}")),
    ("ATATT", "Atlassian token", re.compile(r"ATATT3[\w=-]{20,}")),
    ("AGE-SECRET-KEY-", "age key", re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{40,}")),
    (":AA", "bot token", re.compile(r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])")),
    ("eyJ", "token", re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")),
    (
        "PRIVATE KEY",
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
            r"(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
    ),
)
_BEARER = re.compile(r"(?i)\b(bearer[ \t]+)([A-Za-z0-9._~+/=-]{16,})")
_IN_ADDRESS = re.compile(r"(://[^\s/:@\"'<>]{0,100}:)([^\s/\"'<>]{1,200})(?=@)")
_USER_OF_ADDRESS = re.compile(r"(://)((?=[^\s/:@]{0,99}\d)[^\s/:@\"'<>]{20,200})(?=(?::x-oauth-basic)?@)")
_HEADER = re.compile(
    r"(?i)(?<![A-Za-z0-9])((?:proxy-)?authorization[\"']?[ \t]*[:=][ \t]*(?:(?-i:b)(?=[\"']))?[\"']?"
    r"(?:(?:bearer|basic|token|digest|apikey|key|negotiate|bot)[ \t]+)?)([^\s\"'`]{4,})"
)
_COOKIE = re.compile(
    r"(?i)(?<![A-Za-z0-9])((?:set-)?cookie[\"']?[ \t]*:[ \t]*[\"']?)(\w[^\s=;\"']{0,80}=[^\r\n\"'`]{1,4000})"
)
_BASIC = re.compile(r"(?i)\b(basic[ \t]+)([A-Za-z0-9+/_-]{8,}={0,2})")
_OPTION = re.compile(
    r"(?i)(?<!\S)(--?(?:[a-z]+-)*(?:passw(?:or)?d|passphrase|(?:store|key)?pass|secret|token|api-?key|access-?key|secret-?key)"
    r"[ \t]+)([^\s\"'`-][^\s\"'`]{3,}|\"[^\"\r\n]{4,}\"|'[^'\r\n]{4,}')"
)
_USER_OPTION = re.compile(r"(?<!\S)((?:-u|--user|--proxy-user)[ \t=]?[\"']?[\w.@-]{1,60}:)([^\s\"'`]{3,})")
_LOGIN = re.compile(
    r"(?i)\b(login[ \t\r\n]+\S{1,100}\s+password[ \t]+[\"']?)((?:[^\s\"'\ue000]|[\"'](?=\w)){3,})"
)
_ESCAPED = "\ue000"
"""Stands before a character that JSON has escaped, while a text is read."""
_ESCAPE, _UNESCAPE = re.compile(r'\\([\\nrt"])'), re.compile(f'{_ESCAPED}([\\\\\n\r\t"])')
_READ, _WRITTEN = str.maketrans("nrt", "\n\r\t"), str.maketrans("\n\r\t", "nrt")
_WORDS = (
    r"passw(?:or)?d|passphrase|passwort|pwd|pass|secret|token|credential|key|auth|signature|signing|sig|unseal|"
    r"(?<=[_-])(?:pat|sk|salt|webhook)(?![a-z])"
)
_QUOTE = rf"{_ESCAPED}?[\"']?"
_VALUE = (
    rf"((?<=\")[^\"\r\n]{{3,200}}|(?<=')[^'\r\n]{{3,200}}|(?<![\"'])[^\s\"'`|;&<>(){_ESCAPED}-]"
    rf"[^\s\"'`<>{_ESCAPED}]{{2,200}})"
)
"""What follows an option: within quotes if `_QUOTE` stands before it."""
_COMMANDS: tuple[tuple[str, str], ...] = (
    (r"(?:mysql|mariadb)[\w-]{0,20}|7z[ar]?|(?:un)?rar", r"-p"),
    (r"sshpass|mongo[a-z]{0,10}", r"-p[ \t]*"),
    (
        r"(?:docker|podman|buildah|skopeo|nerdctl|helm|crane|oras|az|oc|cf)(?:[ \t]+[a-z]+)?[ \t]+login",
        r"-p[ \t=]*",
    ),
    (r"(?:un)?zip|zipcloak|sqlcmd|bcp|ipmitool", r"-P[ \t]*"),
    (r"(?:redis|valkey)-cli", r"-a[ \t]+"),
    (r"openssl", r"-k[ \t]+"),
    (r"ldap[a-z]{3,10}", r"-w[ \t]*"),
    (r"plink|pscp|psftp|putty", r"-pw[ \t]+"),
    (r"smb[a-z]{1,10}|rpcclient|net", r"(?:-U[ \t]*[\"']?[^\s%\"']+%|/user:\S+[ \t]+)"),
    (r"curl|lftp", r"-[A-Za-z]{0,10}[uU][ \t]*[\"']?[\w.@-]{1,60}[:,]"),
    (
        r"htpasswd",
        r"-[A-Za-z]*b[A-Za-z]*[ \t]+(?:-\S+[ \t]+)*(?:[^\s\[]\S*[ \t]+){1,2}(?=\S+[ \t]*(?:[>#]|\Z))",
    ),
    (r"snmp[a-z]{2,10}", r"-[AX][ \t]*"),
    (r"rabbitmqctl", r"(?:add_user|change_password)[ \t]+\S+[ \t]+"),
    (r"[wx]freerdp", r"/p:"),
)
"""Commands, and their options before a password that look like options of another meaning elsewhere."""
_COMMAND_HINTS = (
    *(
        blank + option
        for blank in " \t"
        for option in ["-p", "-P", "-a", "-k", "-w", "-U", "-A", "-X", "/p:"]
    ),
    *("/user:", "add_user", "change_password", "curl", "lftp", "htpasswd"),
)
_COMMAND = re.compile(
    r"(?<![\w.-])(?P<name>"
    + "|".join(f"(?P<c{number}>{name})" for number, (name, _) in enumerate(_COMMANDS))
    + r")(?P<rest>[ \t](?:[^\r\n|;&\\]|[|;&](?=[^\s|;&])|"
    rf"\\{_ESCAPED}?\r?\n|\\(?!{_ESCAPED}?[\r\n])){{1,2000}})"
)
_COMMAND_BEGUN = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(name for name, _ in _COMMANDS)}|echo|printf|docker|podman|az|helm)[ \t]"
    r"(?:[^\r\n]|\\\r?\n)*\Z"
)
_PIPED = re.compile(
    rf"((?:\becho|\bprintf)[ \t]+(?:-\w+[ \t]+)?{_QUOTE}){_VALUE}(?={_QUOTE}[ \t]*\|[ \t]*"
    r"(?:sudo[ \t][^\r\n|]{0,80}-S\b|[^\r\n|]{0,200}--password-stdin|"
    r"(?:sudo[ \t]+)?(?:chpasswd|passwd|kinit)\b))"
)
_STATED = re.compile(
    r"(?i)\b((?:identified[ \t]+(?:with[ \t]+\S{1,60}[ \t]+)?by|password|requirepass|masterauth)[ \t]+"
    rf"{_QUOTE}){_VALUE}"
)
_SPACED = re.compile(
    r"(?i)((?:access|api|auth|client|private|account|[a-z0-9][_.])_?"
    rf"(?:key|token|secret|passw(?:or)?d|passphrase|pass|pat)[ \t{_ESCAPED}]+{_QUOTE}){_VALUE}"
)
_PGPASS = re.compile(
    r"((?<=[\w*]):(?:\d{4,5}|\*):(?!\d+:)[^\s:]{1,60}:[^\s:]{1,60}:)"
    rf"([^\s:\"'{_ESCAPED}]{{5,200}})(?=[\s\"'{_ESCAPED}]|\Z)"
)
_ELEMENT = re.compile(
    rf"(?P<lead><(?:[\w-]{{1,40}}:)?(?P<name>(?!(?i:key)>)[\w.-]{{1,60}})(?:[ \t][^<>]{{0,100}})?>"
    rf"[\s{_ESCAPED}]{{0,100}}(?:<!\[CDATA\[)?)"
    rf"(?P<value>[^<>\s{_ESCAPED}][^<>]{{0,2000}}?)(?=[\s{_ESCAPED}]*(?:\]\]>\s*)?</)"
)
_ATTRIBUTE = re.compile(
    rf"(?P<lead>\b(?:key|name)={_ESCAPED}?[\"'](?P<name>[\w.-]{{1,60}}){_ESCAPED}?[\"']"
    rf"(?:[^<>]{{0,60}}?\bvalue={_ESCAPED}?[\"']|[^<>]{{0,60}}>[\s{_ESCAPED}]{{0,100}}))"
    rf"(?P<value>[^<>\s\"'{_ESCAPED}][^<>\"'{_ESCAPED}]{{0,500}})"
)
_BLOCK = re.compile(
    rf"(?P<lead>(?<![\w.-])(?P<name>[\w.-]{{1,60}}+)[\"']?[ \t]*:[ \t]*[|>][+-]?\d?[ \t]*"
    rf"{_ESCAPED}?\r?{_ESCAPED}?\n"
    rf"(?P<indent>[ \t]+))(?P<value>[^\s\"'][^\n\"]*(?:\n(?P=indent)[^\n\"]*){{0,200}})"
)
_PATH = re.compile(r"(?:/[a-z._-]+){2,}")
_IN_DSN = re.compile(r"(\A[^\s:@/]{1,80}:(?=[^\s@]+@)|(?i:\bpassword=))([^\s@;&]+)")
_ASSIGNED = re.compile(
    rf"(?i)(?P<word>{_WORDS})(?P<rest>[\w-]{{0,30}}+)"
    rf"(?P<op>{_ESCAPED}?[\"']?\]?(?:[ \t]+is\b)?[ \t]{{0,4}}"
    r"(?:=>|:=|=(?![=>~])|:(?![:/=])|(?<=is)(?=[ \t]))[ \t]{0,4}"
    r"(?:(?-i:b)(?=[\"']))?)"
    rf"(?P<value>{_ESCAPED}?(?:"
    r"\"(?:[^\"\\\r\n]|\\.){0,500}\"|'(?:[^'\\\r\n]|\\.){0,500}'|[^\s\"'`]{1,2000}))"
)
_BEGUN = re.compile(  # what ends at a blank and is no secret yet
    rf"(?i)(?:(?:{_WORDS}|cookie)[\w-]{{0,30}}[\"']?\]?(?:[ \t]+is)?[ \t]{{0,4}}"
    r"(?:(?:=>|:=|=|:)[ \t]{0,4})?(?:b?'[^'\r\n]{0,500})?"
    rf"|(?:{_WORDS})[\w-]{{0,30}}[\"']?[ \t]*:[ \t]*[|>][+-]?\d?[ \t]*\r?\n(?:[ \t]+[^\n]*\n|[ \t]*\n)*[ \t]*"
    rf"|<[^<>]{{0,200}}(?:{_WORDS})[^<>]{{0,200}}(?:>[^<]{{0,500}})?"
    r"|\b(?:api|access|private)[ \t]|\blogin\s+(?:\S{1,100}\s+)?"
    r"|\bidentified[ \t]+(?:with[ \t]+\S{1,60}[ \t]+)?(?:by[ \t]+)?|-----BEGIN [A-Z ]{0,40})\Z"
)
_LAST_WORD = re.compile(rf"(?i).*(?P<word>{_WORDS})(?P<rest>.*)", re.S)
_BEFORE = re.compile(r"(?:\b(?:api|access|secret|private)[ \t])?[\w.-]*\Z", re.I)
_ABOUT_A_SECRET = re.compile(  # a name that tells something about a secret, and is none
    r"(?:[_.-]|(?<=[a-z])(?=[A-Z]))(?i:paths?|files?|filename|dir|folder|sock|name|home|ids?|env|var|variable|url|uri|type|"
    r"kind|counts?|limit|len|length|size|min|max|hash|digest|headers?|prefix|suffix|fields?|policy|rules?|strength|"
    r"required|expires?|expiry|expiration|ttl|age|version|index|label|hint|prompt|format|regex|pattern|errors?|"
    r"ok|valid|usage|budget|encoding|algorithm|store|manager|check|checker|checks)\Z"
)
_STARTS = re.compile(r"(?:(?:\A|[^A-Za-z])[A-Za-z]|[a-z][A-Z])\Z")
_NUMBERS = re.compile(
    r"(?i)(?:^|[_.-])(?:max|min|num|n|total|count|prompt|completion|reply|thinking|input|output)[_.-]"
)
_STRONG_KEY = re.compile(
    r"(?i)(?:api|access|secret|private|account|auth|signing|encryption|master|shared|service|license|subscription|"
    r"session|client|deploy|ssh|admin|webhook|app|user|server|rsa|aes|hmac|jwt|openai)[ _.-]?key(?:_base)?\Z"
)
_NOTHING = re.compile(
    r"(?i)(?:none|null|nil|true|false|undefined|enabled|disabled|str(?:ing)?|int(?:eger)?|bytes|bool(?:ean)?|float|number|object|"
    r"dict|list|any|"
    r"optional|required|needed|missing|invalid|valid|wrong|incorrect|expired|empty|unset|set|yes|no|on|off|ok|"
    r"hidden|secret|password|token|key|value|text|self|this|default|auto|example|placeholder|redacted|"
    r"[x*.•_#?-]+|\\[a-z])\Z"
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+[(\[]?.*|[A-Za-z_][\w.]*[(\[].*", re.S)
_NAMED_ALIKE = re.compile(
    r"(?i)[a-z_-]*(?:passw(?:or)?d|pwd|secret|token|credential|key|auth|pass)[a-z_-]*\Z"
)
_REFERENCE = re.compile(r"[$%<{@\[(]|[rbfu]{1,2}\Z|\.{2,}|…|YOUR[_-]|\\?\Z")
_WEAK = ("pat", "sk", "salt", "webhook", "signing", "unseal")
"""Words that name a secret where a name ends with them."""
_SLUG = re.compile(
    r"(?:[a-z]{2,12}\d{0,3}|v?\d{1,4}|(?<=-)[0-9a-f]{6,64})(?:[-_.](?:(?:[a-z]{1,12}\d{0,3}|v?\d{1,4}|[0-9a-f]{6,64})|(?=\Z)))+\Z"
)
_MARKED = re.compile(r"[0-9a-f]{10}\]")
"""The end of what `HIDDEN` finds."""
_HEX_OR_UUID = re.compile(r"(?i)(?:sha\d+[:-])?[0-9a-f-]{7,}\Z")


def neutralise(text: str) -> str:
    """The text with control characters made visible: ESC becomes `␛`.

    Tab, line feed, and a carriage return before a line feed are kept.
    """
    shown = text if text.isprintable() else text.translate(_CONTROLS)
    return _LONE_RETURN.sub("\u240d", shown) if "\r" in shown else shown


def shown_name(name: str) -> str:
    """A file name as one line of valid text with invisible characters escaped."""
    name = os.fsencode(name).decode("utf-8", "backslashreplace")
    return _UNSEEN.sub(_seen, name)


def _seen(hit: re.Match[str]) -> str:
    code = ord(hit[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_learned: dict[str, str] = {}


def learn_secret(name: str, value: str) -> None:
    """From now on this value is a secret of the process, whatever its form; `name` stands in its place."""
    _learned.update(_spellings(name, value))


def learn_secrets(values: Mapping[str, Any]) -> None:
    """Learn each text of settings whose name says that it is a secret, such as `api_key`."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            learn_secrets(cast(Mapping[str, Any], value))
        elif isinstance(value, str) and names_secret(name):
            learn_secret(name, value)


def secret_of(variable: str) -> str:
    """The secret in an environment variable, without the blanks and line ends around it; "" if there is none.

    Raises `ConfigurationError` for one that no request can carry.
    """
    value = os.environ.get(variable, "").strip()
    learn_secret(variable, value)
    if not (value.isascii() and value.isprintable()):
        raise ConfigurationError(
            f"the environment variable {variable} holds a character that is no printable ASCII; copy it again"
        )
    return value


SHORTEST = 16
"""Characters below which one word of letters and digits is no secret of a known form."""


def names_secret(name: str) -> bool:
    """Whether a variable, setting or header with this name holds a secret."""
    name = name.replace("-", "_")
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


def _spellings(name: str, value: str) -> dict[str, str]:
    """A secret as it is, and as addresses, JSON and Base64 write it; none if it is too short."""
    value = value.strip()
    if len(value) < LEAST:
        return {}
    raw = value.encode("utf-8", "surrogatepass")
    forms = (value, quote(raw, safe=""), json.dumps(value)[1:-1], base64.b64encode(raw).decode().rstrip("="))
    return dict.fromkeys(forms, name)


def redact(text: str) -> str:
    """The text with each secret replaced by `[redacted NAME]`.

    A secret is a value that the process has learned, the value of an environment variable with a name like
    `API_KEY`, or a text of a known form: keys of providers, tokens, private keys, headers, a password in an
    address, `PASSWORD=…`.
    """
    return redactor()(text)


class Pieces:
    """Redacts a text that comes in pieces: one is shown once no secret can go on in the next."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show, self._held = show, ""

    def __call__(self, text: str) -> None:
        """Take the next piece."""
        self._held += text
        at = max(self._held.rfind("\n"), self._held.rfind(" ")) + 1
        first, rest = self._held[:at], self._held[at:]
        if at >= PIECE and _is_whole(first) and redact(first) + redact(rest) == redact(self._held):
            self._show(redact(first))
            self._held = rest

    def end(self) -> None:
        """Show the rest: the text has ended."""
        if self._held:
            self._show(redact(self._held))
        self._held = ""


def _is_whole(text: str) -> bool:
    """Whether no secret has begun, nor what stands before one, that would go on after a text."""
    if "PRIVATE KEY" in text or text.count('"') % 2 or _BEGUN.search(text) or _COMMAND_BEGUN.search(text):
        return False
    begun = (value[:at] for value in _known() for at, each in enumerate(value, 1) if each in " \n")
    return not text.endswith(tuple(begun)) and redact(f"{text}a1b2c3d4e5") == f"{redact(text)}a1b2c3d4e5"


class Verbatim(str):
    """A text that a person approves: what looks like a secret stays, because it could be what runs.

    Where others may read it, `redact_values` hides the values that this process knows to be secrets.
    """

    __slots__ = ()


def redact_values(text: str) -> str:
    """The text without the values of secrets that this process knows. Nothing is hidden for its form."""
    return type(text)(_without_values(text, _known(), _named_only))


def _named_only(name: str, value: str) -> str:
    return f"[redacted {name}]"


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """A JSON value with each text in it redacted."""
    if isinstance(value, Verbatim):
        return redact_values(value)
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, Any], value).items()
        return {redacted(key, redact): _named(key, each, redact) for key, each in pairs}
    if isinstance(value, list | tuple):
        return [redacted(each, redact) for each in cast(list[Any], value)]
    return value


def _named(name: str, value: Any, redact: Callable[[str], str]) -> Any:
    """The value of a member, read together with its name: `{"password": "…"}`."""
    if not isinstance(value, str) or isinstance(value, Verbatim) or "\n" in value:
        return redacted(value, redact)
    mark = redact(f"password='{value}'") if _is_secret_of(name, value) else ""
    return mark[len("password='") : -1] if mark and "'" not in value else redact(value)


def _is_secret_of(name: str, value: str) -> bool:
    """Whether a value is a secret that stands apart from its name, as in JSON, XML and blocks of YAML."""
    hit = _assigned_to(name) if value else None
    return hit is not None and _is_secret(hit, value, quoted=True)


@lru_cache(maxsize=1024)
def _assigned_to(name: str) -> re.Match[str] | None:
    """Where a secret would stand after this name."""
    return _ASSIGNED.search(f'{name}: "x"')


def redactor(mark: Mark | None = None) -> Callable[[str], str]:
    """`redact` for many texts: reads the environment once."""
    secrets = _known()

    def without(text: str) -> str:
        text = _without_values(text, secrets, mark or _named_only)
        text = _without_forms(text, mark or _named_only)
        return HIDDEN.sub(r"\1]", text) if mark is None and "[redacted " in text else text

    return without


def _without_values(text: str, secrets: Mapping[str, str], mark: Mark) -> str:
    there = [value for value in secrets if value in text]
    if not there:
        return text
    known = re.compile("|".join(map(re.escape, sorted(there, key=len, reverse=True))))
    return known.sub(lambda hit: mark(secrets[hit[0]], hit[0]), text)


def _known() -> dict[str, str]:
    """The secrets that are known by value, each with its name."""
    return _learned | _named_by(tuple(os.environ.items()))


@lru_cache(maxsize=4)
def _named_by(environment: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The secrets in an environment, each with the name of its variable."""
    secrets: dict[str, str] = {}
    for name, value in environment:
        if names_secret(name) and not _NOTHING.match(value) and not _is_path(value):
            secrets |= _spellings(name, value)
        elif hit := _IN_ADDRESS.search(value) or _IN_DSN.search(value):
            secrets |= _spellings(name, hit[2])
    return secrets


def _is_path(value: str) -> bool:
    try:
        return value.startswith("/") and Path(value).exists()
    except OSError:  # too long for one
        return False


def _without_tokens(text: str, mark: Mark) -> str:
    for hint, name, shape in _SHAPES:
        if hint in text:
            text = shape.sub(lambda hit, name=name: mark(name, hit[0]), text)
    return _after(text, _TOKENS_AFTER, mark)


def _after(text: str, forms: Sequence[_Form], mark: Mark) -> str:
    lower = text.lower()
    for hint, name, pattern, holds in forms:
        if hint in lower:

            def replaced(hit: re.Match[str], name: str = name, holds: Callable[[str], bool] = holds) -> str:
                value = hit[2]
                return hit[0] if "[redacted" in value or not holds(value) else hit[1] + mark(name, value)

            text = pattern.sub(replaced, text)
    return text


def _without_forms(text: str, mark: Mark) -> str:
    """The text without secrets of a known form, also where it is the inside of JSON."""
    if len(text) < SHORTEST and text.isalnum():
        return text
    if "\\" not in text or _ESCAPED in text:
        return _without_forms_in(text, mark)

    def written(text: str) -> str:
        return _UNESCAPE.sub(lambda hit: "\\" + hit[1].translate(_WRITTEN), text)

    def marked(name: str, value: str) -> str:
        inner = value.removesuffix(_ESCAPED)
        return mark(name, written(inner)) + value[len(inner) :]

    read = _ESCAPE.sub(lambda hit: _ESCAPED + hit[1].translate(_READ), text)
    return written(_without_forms_in(read, marked))


def _without_forms_in(text: str, mark: Mark) -> str:
    text = _after(_without_tokens(text, mark), _OTHERS_AFTER, mark)
    if any(hint in text for hint in _COMMAND_HINTS):
        text = _COMMAND.sub(lambda hit: _command(hit, mark), text)
    lower = text.lower()
    if _ANY_WORD.search(lower):
        for hints, apart in (("</",), _ELEMENT), (("name=", "key="), _ATTRIBUTE), ((": |", ": >"), _BLOCK):
            if any(hint in text for hint in hints):
                text = apart.sub(lambda hit: _apart(hit, mark), text)
        text = _ASSIGNED.sub(lambda hit: _assigned(hit, mark), text)
    return text


_ANY_WORD = re.compile(
    r"pass|pwd|secret|token|credential|key|auth|sig|unseal|[_-](?:pat|sk|salt|webhook)(?![a-z])"
)


def _assigned(hit: re.Match[str], mark: Mark) -> str:
    value, around = hit["value"].removeprefix(_ESCAPED), ""
    lead = hit["value"][: len(hit["value"]) - len(value)]
    if value and value[0] in "\"'" and value[-1] == value[0] and len(value) > 1:
        around, value = value[0], value[1:-1]
    rest = ""
    if not around:
        end = re.search(r"[&;](?=[\w.-]+=)|[,;)}\]>.]*\Z|\\[rn]", value)
        at = end.start() if end else len(value)
        value, rest = value[:at], value[at:]
    others = "".join(
        _ASSIGNED.sub(lambda other: _assigned(other, mark), each)
        for each in re.split(r"(?=[&;][\w.-]+=)", rest)
    )
    if not value or not _is_secret(hit, value, quoted=bool(around), ends=not rest):
        return hit[0][: len(hit[0]) - len(rest)] + others
    marked = mark(_kind(hit["word"]), value)
    return f"{hit['word']}{hit['rest']}{hit['op']}{lead}{around}{marked}{around}{others}"


def _command(hit: re.Match[str], mark: Mark) -> str:
    """A command, with what follows its option for a password hidden."""
    number = next(each for each in range(len(_COMMANDS)) if hit[f"c{each}"])
    return hit["name"] + _after(hit["rest"], (_OPTION_OF[number],), mark)


def _apart(hit: re.Match[str], mark: Mark) -> str:
    """An element, attribute or block with its value hidden if its name says that it is a secret."""
    name, value = hit["name"], hit["value"]
    if _PATH.fullmatch(value):
        return hit[0]
    if not _is_secret_of(name, value.strip(f" \t\r\n{_ESCAPED}")):
        return hit[0]
    return hit["lead"] + mark(_kind(_ANY_WORD.findall(name.lower())[-1]), value)


def _kind(word: str) -> str:
    word = word.lower()
    return (
        "password"
        if word.startswith(("pass", "pwd"))
        else word
        if word in ("secret", "token", "key")
        else "secret"
    )


def _is_secret(hit: re.Match[str], value: str, *, quoted: bool, ends: bool = True) -> bool:
    """Whether what is assigned to this name is a secret, and not code, a reference or a word about one."""
    text = hit.string
    before = _BEFORE.search(text, max(0, hit.start() - 60), hit.start())
    name = (before[0] if before else "") + hit["word"] + hit["rest"]
    if (
        name in ("PWD", "OLDPWD")
        or _ABOUT_A_SECRET.search(name)
        or _NUMBERS.search(name)
        or _is_nothing(value)
    ):
        return False
    if not quoted and (_CODE.fullmatch(value) or _NAMED_ALIKE.match(value)):
        return False
    last = _LAST_WORD.match(name)
    assert last
    word, rest = last["word"].lower(), last["rest"]
    if last["word"].isupper() and rest[:1].isupper() and rest != "S":
        return False  # KEYBOARD is no key
    password = word.startswith(("passw", "passp", "pwd", "pass"))
    if word in _WEAK and not re.match(r"s?_?\d*\Z", rest):
        return False
    if not re.match(r"(?:s|\d*|[_-].*|[A-Z].*)\Z", rest) or (quoted and " " in value and not password):
        return False
    if word in ("pass", "key", "auth", "sig", "signing", "unseal") and not (
        _STARTS.search(name, 0, last.start("word") + 1) or _STRONG_KEY.search(name)
    ):
        return False
    assigned = "=" in hit["op"] or quoted
    shouted = name.isupper() and "=" in hit["op"]
    mixed = bool(re.search(r"\d", value) and re.search(r"[A-Za-z]", value))
    if not assigned and ":" not in hit["op"]:  # the password is …
        return mixed and len(value) >= 6
    if password:
        if assigned or not value.isalpha() or not value.islower():
            return len(value) >= 3 and not (word == "pass" and value.isdigit())
        last_on_line = text[hit.end() : hit.end() + 1] in ("", "\n", "\r", ",", '"', "'")
        return ends and last_on_line and len(value) >= 6
    if value.isdigit():
        return word == "secret" and len(value) >= 6
    if (
        word in ("secret", "credential", "token", "pat", "sk")
        or (word == "key" and _STRONG_KEY.search(name))
        or shouted
    ):
        telling = shouted or mixed or not value.isalnum() or len(value) > 15
        return len(value) >= (4 if shouted else 8) and telling if assigned else len(value) >= 8 and mixed
    if _HEX_OR_UUID.match(value) or _SLUG.match(value) or not mixed or "/" in value or "." in value:
        return False
    return len(value) >= 16 and not rest


def _is_nothing(value: str) -> bool:
    """Whether a value stands for one, or for none: `none`, `$PASSWORD`, `<token>`, `***`."""
    return "[redacted" in value or bool(_NOTHING.match(value) or _REFERENCE.match(value))


def _is_random(value: str) -> bool:
    """Whether a value that stands beside a word about a secret is one itself, and no word."""
    words = (_MARKED, _HEX_OR_UUID, _SLUG)
    if len(value) < 8 or "." in value or _is_nothing(value) or _CODE.fullmatch(value):
        return False
    if any(each.match(value) for each in words):
        return False
    if re.search(r"\d", value):
        return bool(re.search(r"[A-Za-z]", value))
    return len(value) >= 20 and value.isalpha() and value.lower() != value != value.upper()


def _is_user_and_password(encoded: str) -> bool:
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        return False
    return b":" in raw and raw.isascii() and raw.decode().isprintable()


def cut(text: str, limit: int, where: str, *, head: float = 1 / 3) -> str:
    """At most `limit` characters of a text: its head and tail with a mark between them.

    The mark names `where` the whole text is. The tail gets more room, because most results end with what
    matters.
    """
    if len(text) <= limit:
        return text
    named = f"; whole in {where}" if where else ""
    earlier = list(_CUT.finditer(text))  # a text that was cut before says how much it has lost
    lost = sum(int(each[1]) for each in earlier)
    room = limit - len(f"\n[… {len(text) + lost} characters cut{named} …]\n")
    if room < limit // 2:  # the long mark would leave too little room
        mark = "\n[…]\n"[:limit]
        room = limit - len(mark)
        return text[: int(room * head)] + mark + text[len(text) - room + int(room * head) :]
    first = int(room * head)
    last = len(text) - room + first
    gone = 0
    for each in earlier:
        if each.start() < last and each.end() > first:
            first, last = min(first, each.start()), max(last, each.end())
            gone += int(each[1]) - len(each[0])
    return f"{text[:first]}\n[… {last - first + gone} characters cut{named} …]\n{text[last:]}"


_CUT = re.compile(r"\n\[… (\d{1,12}) characters cut(?:; whole in [^\n]{1,300})? …\]\n")


_Form = tuple[str, str, re.Pattern[str], Callable[[str], bool]]
_TOKENS_AFTER: tuple[_Form, ...] = (
    ("://", "password", _IN_ADDRESS, lambda value: not _REFERENCE.match(value)),
    ("bearer", "token", _BEARER, bool),
)
_OPTION_OF: tuple[_Form, ...] = tuple(
    (
        "",
        "password",
        re.compile(rf"((?<=[ \t])(?:{option}){_QUOTE}){_VALUE}"),
        lambda value: not _is_nothing(value),
    )
    for _, option in _COMMANDS
)
_OTHERS_AFTER: tuple[_Form, ...] = (
    ("://", "token", _USER_OF_ADDRESS, bool),
    ("authorization", "token", _HEADER, lambda value: not _is_nothing(value)),
    ("cookie", "cookie", _COOKIE, bool),
    ("basic", "password", _BASIC, _is_user_and_password),
    ("-", "password", _USER_OPTION, lambda value: not _REFERENCE.match(value)),
    ("login", "password", _LOGIN, bool),
    ("|", "password", _PIPED, lambda value: not _is_nothing(value)),
    ("", "password", _STATED, _is_random),
    ("", "secret", _SPACED, _is_random),
    (":", "password", _PGPASS, lambda value: not _is_nothing(value)),
    ("-", "secret", _OPTION, lambda value: not _is_nothing(value.strip("\"'"))),
)
"""Forms that show by what stands before: a hint in lower case, the secret's name, its form, and a test."""
