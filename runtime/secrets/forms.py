"""Secrets that show by their form: keys of known kinds, and values beside what says that they are secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

Mark = Callable[[str, str], str]
"""What stands in the place of a secret, from its name and its value."""
JUMBLED = 0.5
"""Changes between small letters, capitals and digits, by character, from which a text is a jumble."""
_SECRET_NAME = re.compile(
    r"(?i)(?:^|_)(?:api|access|secret|private|auth|client|pg|redis|mysql|db)?_?"
    r"(?:keys?|tokens?|secrets?|passw(?:or)?d|passphrase|pass|pwd|credentials?|authorization|cookie)(?:_|\d*$)"
    r"|(?:^|_)(?:auth|pat|sk|salt|webhook(?:_url)?|(?:signing|unseal)(?:_\w+)?)_?\d*$|^sshpass$"
)
_NOT_SECRET = re.compile(r"(?i)_(?:path|file|dir|sock|name|home|env)$|^(?:KEYBOARD|KEYMAP|PWD$|OLDPWD$)")
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("sk-", "API key", r"sk-(?=[\w-]{0,200}\d)[\w-]{20,}"),
    ("gh", "GitHub token", r"gh[oprsu]_[A-Za-z0-9]{30,}"),
    ("github_pat_", "GitHub token", r"github_pat_\w{22,}"),
    ("gl", "GitLab token", r"gl(?:pat|dt|rt|rtr|ptt|cbt|ft|imt|soat|agent|ffct)-[\w-]{20,}"),
    ("A", "AWS key", r"A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}(?![0-9A-Z])"),
    ("ABSK", "AWS key", r"ABSK[\w+/=-]{80,}"),
    ("xox", "Slack token", r"xox[abeoprs]-(?=[a-z-]*\d)[A-Za-z0-9-]{10,}"),
    ("xapp-", "Slack token", r"xapp-\d-[A-Za-z0-9-]{10,}"),
    ("hooks.slack.com/", "Slack address", r"(?<=hooks\.slack\.com/)services/[\w/-]{20,}"),
    ("/hooks/catch/", "webhook", r"(?<=/hooks/catch/)\d+/\w{5,}"),
    ("/webhookb2/", "webhook", r"(?<=/webhookb2/)[\w@/-]{20,}"),
    ("/api/webhooks/", "webhook", r"(?<=/api/webhooks/)\d{10,}/[\w-]{20,}"),
    ("AIza", "Google key", r"AIza[\w-]{35}"),
    ("ya29.", "Google token", r"ya29\.[\w-]{20,}"),
    ("1//0", "Google token", r"1//0[\w-]{40,}"),
    ("GOCSPX-", "Google secret", r"GOCSPX-[\w-]{20,}"),
    ("8Q~", "Azure secret", r"[\w-]{3}8Q~[\w~.-]{31,}"),
    ("npm_", "npm token", r"npm_[A-Za-z0-9]{36}"),
    ("pypi-", "PyPI token", r"pypi-AgE[\w-]{50,}"),
    ("rubygems_", "RubyGems key", r"rubygems_[0-9a-f]{40,}"),
    ("oy2", "NuGet key", r"oy2(?=[a-z0-9]*\d)[a-z0-9]{43}(?![A-Za-z0-9])"),
    ("_", "API key", r"(?:gsk|r8|tgp_v1|pat|key)_(?=\w{0,80}[\dA-Z])[A-Za-z0-9]{30,}"),
    ("hf_", "Hugging Face token", r"hf_[A-Za-z0-9]{30,}"),
    ("_", "Stripe key", r"(?:[srp]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    (
        "_",
        "token",
        r"(?:shp(?:at|ca|pa|ss)|do[opr]_v1|lin_(?:api|oauth)|ntn|secret|fig[a-z]{1,2}|sntry[su]|glsa|glc|fm[12]|ops|"
        r"sbp|nfp|tfp|napi|pscale_[a-z]{2,6}|lsv2_(?:pt|sk)|dckr_(?:pat|oat)|vc[a-z]|nrk|phc|phx|rnd|shippo_live|duffel_live)"
        r"_(?=[\w+/=-]{0,200}\d)[\w+/=-]{26,}",
    ),
    (
        "-",
        "API key",
        r"(?:xai|pplx|tvly|nvapi|csk|fc|pul|PMAK|HRKU|access-(?:production|sandbox))-(?=[\w-]{0,80}\d)[\w-]{20,}",
    ),
    ("NRA", "New Relic key", r"NRA[A-Z]-[A-Z0-9]{27}|[0-9a-f]{36}NRAL"),
    (
        "-",
        "key",
        r"(?<![_-])key-[0-9a-f]{32}(?![0-9a-f])|(?<!-)pat-(?:na|eu)\d-[0-9a-f-]{36}|[0-9a-f]{32}-us\d{1,2}\b",
    ),
    ("$", "token", r"access_token\$\w{1,20}\$[0-9a-f]{16}\$[0-9a-f]{32}"),
    ("SG.", "SendGrid key", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("hv", "Vault token", r"hv[sbr]\.[\w-]{20,}"),
    ("dp.", "Doppler token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w-]{30,}"),
    ("sl.", "Dropbox token", r"sl\.[\w-]{100,}"),
    (".atlasv1.", "Terraform token", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}"),
    ("v1.0-", "key", r"v1\.0-[0-9a-f]{10,}-[0-9a-f]{60,}"),
    ("AT", "Atlassian token", r"AT(?:ATT3|CTT3|BB)(?=[\w=-]{0,40}\d)[\w=-]{20,}"),
    ("EAA", "token", r"EAA[A-Z](?=[\w-]{0,60}\d)[\w-]{50,}|EAA(?=\w{0,60}\d)\w{80,}"),
    (
        "A",
        "API key",
        r"(?:AKCp[0-9]|AKID|AQVN|EZ[AT]K)(?=[\w-]{0,40}\d)[\w-]{30,}|LTAI(?=\w{0,20}\d)[A-Za-z0-9]{12,24}(?!\w)",
    ),
    ("dapi", "Databricks token", r"dapi[0-9a-f]{32}"),
    ("SK", "Twilio key", r"SK[0-9a-f]{32}(?!\w)"),
    ("cio", "API key", r"cio(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{32}(?!\w)"),
    ("AGE-SECRET-KEY-", "age key", r"AGE-SECRET-KEY-1[0-9A-Z]{40,}"),
    (":AA", "bot token", r"\d{8,10}:AA[\w-]{33}(?![\w-])"),
    (".", "bot token", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
    ("pat", "Airtable token", r"pat\w{14}\.[0-9a-f]{64}"),
    ("eyJ", "token", r"(?<![_-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    ("$", "password hash", r"(?<!\$)\$(?:apr1|[156y]|2[abxy]|argon2\w{0,2})\$[\w./$=,+-]{20,}"),
    (
        "PRIVATE KEY",
        "private key",
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
        r"(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    ("LS0tLS1CRUdJTi", "private key", r"LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM)[\w+/=]{60,}"),
    ("Private-Lines", "private key", r"Private-Lines: \d+(?:[\s\ue000\"',\\]{1,12}[\w+/=]{20,80})+"),
    (
        "",
        "token",
        r"(?<![\w/+.=-])(?=[\w-]{31})(?!(?i:sha\d|md5|base64))[A-Za-z][A-Za-z0-9]{1,11}(?:[_-][A-Za-z0-9]{1,8}){0,2}[_-]"
        r"(?P<jumbled>[A-Za-z0-9_-]{28,})(?![\w/+=-]|\.[a-z])",
    ),
)
"""Keys and tokens that show by themselves: a part that each has, its name, its form after no letter or digit.

The last one is any long jumble of letters and digits behind a short prefix.
"""


@lru_cache(maxsize=128)
def _shape(hint: str, form: str) -> re.Pattern[str]:
    """The form compiled, when a text first has its hint: most runs meet none."""
    first = hint.replace(".", r"\.")
    if hint and form.startswith(first) and "|" not in re.sub(r"\([^()]*\)|\[[^]]*\]", "", form):
        # a search for what begins with letters is ten times as fast
        return re.compile(rf"{first}(?<![A-Za-z0-9]{first}){form[len(first) :]}")
    return re.compile(rf"(?<![A-Za-z0-9])(?:{form})")


def _is_jumbled(text: str) -> bool:
    """Whether letters of both kinds and digits alternate as in no word, however words are joined."""
    kinds = [each.isdigit() + 2 * each.isupper() for each in text if each.isalnum()]
    turns = sum(one != other for one, other in pairwise(kinds))
    return len(set(kinds)) == 3 and 16 * kinds.count(1) >= len(kinds) and turns > JUMBLED * len(kinds)


_IN_ADDRESS = r"(://[^\s/:@\"'<>]{0,100}:)([^\s/\"'<>]{1,200})(?=@)"
_ESCAPED = "\ue000"
"""Stands before a character that JSON has escaped, while a text is read."""
_ESCAPE, _UNESCAPE = re.compile(r'\\([\\nrt"])'), re.compile(f'{_ESCAPED}([\\\\\n\r\t"])')
_READ, _WRITTEN = str.maketrans("nrt", "\n\r\t"), str.maketrans("\n\r\t", "nrt")
_WORDS = (
    r"passw(?:or)?d|passphrase|passwort|pwd|pass|psk|secret|token|credential|key|auth|signature|signing|sig|unseal|"
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
HIDDEN = re.compile(r"(\[redacted [^\[\]\n]{1,80}) ([0-9a-f]{10})\]")
"""What stands in the place of a secret in what a run stores: its name, and the ID of its value."""
_MARKED = re.compile(r"[0-9a-f]{10}\]")
"""The end of what `HIDDEN` finds."""
_HEX_OR_UUID = re.compile(r"(?i)(?:sha\d+[:-])?[0-9a-f-]{7,}\Z")
SHORT = 5_000
"""Characters up to which it is kept whether a text has such a secret."""
LONG = 1_000_000
"""The same for the few texts that were asked for last."""
SHORTEST = 16
"""Characters below which one word of letters and digits is no secret of a known form."""


def names_secret(name: str) -> bool:
    """Whether a variable, setting or header with this name holds a secret."""
    name = name.replace("-", "_")
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


def is_empty(value: str) -> bool:
    """Whether a value says that there is none, or of what type one would be."""
    return bool(_NOTHING.match(value))


def password_in(value: str) -> str:
    """The password in an address, or in the settings of a connection; "" if there is none."""
    hit = re.search(_IN_ADDRESS, value) or _IN_DSN.search(value)
    return hit[2] if hit and not _is_nothing(hit[2]) else ""


def has_begun(text: str) -> bool:
    """Whether a secret may have begun in a text, or what stands before one, that would go on after it."""
    begun = _BEGUN.search(text) or _COMMAND_BEGUN.search(text)
    return "PRIVATE KEY" in text or text.count('"') % 2 == 1 or bool(begun)


def is_secret_of(name: str, value: str) -> bool:
    """Whether a value is a secret that stands apart from its name, as in JSON, XML and blocks of YAML."""
    hit = _assigned_to(name) if value else None
    return hit is not None and _is_secret(hit, value, quoted=True)


@lru_cache(maxsize=1024)
def _assigned_to(name: str) -> re.Match[str] | None:
    """Where a secret would stand after this name."""
    return _ASSIGNED.search(f'{name}: "x"')


def _without_tokens(text: str, mark: Mark) -> str:
    for hint, name, form in _SHAPES:
        if hint in text:

            def marked(hit: re.Match[str], name: str = name) -> str:
                jumble = hit.groupdict().get("jumbled")
                return hit[0] if jumble and not _is_jumbled(jumble) else mark(name, hit[0])

            text = _shape(hint, form).sub(marked, text)
    return _after(text, _TOKENS_AFTER, mark)


@lru_cache(maxsize=64)
def _compiled(form: str) -> re.Pattern[str]:
    return re.compile(form)


def _after(text: str, forms: Sequence[_Form], mark: Mark) -> str:
    lower = text.lower()
    for hint, name, form, holds in forms:
        if hint in lower:

            def replaced(hit: re.Match[str], name: str = name, holds: Callable[[str], bool] = holds) -> str:
                value = hit[2]
                return hit[0] if "[redacted" in value or not holds(value) else hit[1] + mark(name, value)

            text = _compiled(form).sub(replaced, text)
    return text


def without_forms(text: str, mark: Mark) -> str:
    """The text without secrets of a known form, also where it is the inside of JSON."""
    has_none = _has_none if len(text) <= SHORT else _long_has_none
    return text if len(text) <= LONG and has_none(text) else _without_forms(text, mark)


def _holds_none(text: str) -> bool:
    """Whether a text has no secret of a known form: most texts of a document are written many times."""
    found: list[str] = []

    def mark(name: str, value: str) -> str:
        found.append(name)
        return value

    _without_forms(text, mark)
    return not found


_has_none = lru_cache(maxsize=1024)(_holds_none)
_long_has_none = lru_cache(maxsize=16)(_holds_none)


def _without_forms(text: str, mark: Mark) -> str:
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
    if "cookie" in lower:
        text = _COOKIES.sub(
            lambda hit: hit[1] + _OPEN.sub(lambda each: mark("cookie", each[0]), hit[2]), text
        )
    if _ANY_WORD.search(lower):
        for hints, apart in (("</",), _ELEMENT), (("name=", "key="), _ATTRIBUTE), ((": |", ": >"), _BLOCK):
            if any(hint in text for hint in hints):
                text = apart.sub(lambda hit: _apart(hit, mark), text)
        text = _ASSIGNED.sub(lambda hit: _assigned(hit, mark), text)
    return text


_COOKIES = re.compile(
    r"(?i)(?<![A-Za-z0-9])((?:set-)?cookie[\"']?[ \t]*:[ \t]*[\"']?)"
    r"((?:\[redacted [^\[\]\r\n]{1,80}\];?[ \t]*)*\w[^\s=;\"']{0,80}=[^\r\n\"'`]{1,4000})"
)
_OPEN = re.compile(r"\w[^\s=;\"'\[]{0,80}=(?!\[redacted )(?:[^\[]|\[(?!redacted ))*[^\s;\[]")
"""In cookies: those that stand before, after or between what is hidden already."""
_ANY_WORD = re.compile(
    r"pass|pwd|psk|secret|token|credential|key|auth|sig|unseal|[_-](?:pat|sk|salt|webhook)(?![a-z])"
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
    if not is_secret_of(name, value.strip(f" \t\r\n{_ESCAPED}")):
        return hit[0]
    return hit["lead"] + mark(_kind(_ANY_WORD.findall(name.lower())[-1]), value)


def _kind(word: str) -> str:
    word = word.lower()
    return (
        "password"
        if word.startswith(("pass", "pwd", "psk"))
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
    password = word.startswith(("passw", "passp", "pwd", "pass", "psk"))
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


def is_random(value: str) -> bool:
    """Whether a value that stands beside a word about a secret is one itself, and no word."""
    if len(value) < 8 or "." in value or is_word(value):
        return False
    if re.search(r"\d", value):
        return bool(re.search(r"[A-Za-z]", value))
    return len(value) >= 20 and value.isalpha() and value.lower() != value != value.upper()


def is_word(value: str) -> bool:
    """Whether a value is a name, a digest, code or a reference, as ordinary texts have them."""
    words = (_MARKED, _HEX_OR_UUID, _SLUG)
    return (
        _is_nothing(value)
        or bool(_CODE.fullmatch(value) or _PATH.fullmatch(value))
        or any(each.match(value) for each in words)
    )


def _is_user_and_password(encoded: str) -> bool:
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        return False
    return b":" in raw and raw.isascii() and raw.decode().isprintable()


def _is_something(value: str) -> bool:
    return not _is_nothing(value)


def _is_no_reference(value: str) -> bool:
    return not _REFERENCE.match(value)


_Form = tuple[str, str, str, Callable[[str], bool]]
"""What shows by what stands before: a hint in lower case, the secret's name, its form, and a test."""
_TOKENS_AFTER: tuple[_Form, ...] = (
    ("://", "password", _IN_ADDRESS, _is_no_reference),
    ("bearer", "token", r"(?i)\b(bearer[ \t]+)([A-Za-z0-9._~+/=-]{16,})", bool),
    ("ssws", "token", r"\b(SSWS[ \t]+)([\w-]{20,})", bool),
    ("signature=", "signature", r"(?i)([?&](?:x-(?:amz|goog|oss|cos)-)?signature=)([\w%+/=-]{16,})", bool),
    ("-key-data", "private key", r"(-key-data[\"']?[ \t]*:[ \t]*[\"']?)([\w+/=]{40,})", bool),
)
_OPTION_OF: tuple[_Form, ...] = tuple(
    ("", "password", rf"((?<=[ \t])(?:{option}){_QUOTE}){_VALUE}", _is_something) for _, option in _COMMANDS
)
_OTHERS_AFTER: tuple[_Form, ...] = (
    (
        "://",
        "token",
        r"(://)((?=[^\s/:@]{0,99}\d)[^\s/:@\"'<>]{20,200})(?=(?::x-oauth-basic)?@)",
        bool,
    ),
    (
        "authorization",
        "token",
        r"(?i)(?<![A-Za-z0-9])((?:proxy-)?authorization[\"']?[ \t]*[:=][ \t]*(?:(?-i:b)(?=[\"']))?[\"']?"
        r"(?:(?:bearer|basic|token|digest|apikey|key|negotiate|bot)[ \t]+)?)([^\s\"'`]{4,})",
        _is_something,
    ),
    ("basic", "password", r"(?i)\b(basic[ \t]+)([A-Za-z0-9+/_-]{8,}={0,2})", _is_user_and_password),
    (
        "-",
        "password",
        r"(?<!\S)((?:-u|--user|--proxy-user)[ \t=]?[\"']?[\w.@-]{1,60}:)([^\s\"'`]{3,})",
        _is_no_reference,
    ),
    (
        "login",
        "password",
        r"(?i)\b(login[ \t\r\n]+\S{1,100}\s+password[ \t]+[\"']?)"
        rf"((?:[^\s\"'{_ESCAPED}]|[\"'](?=\w)){{3,}})",
        bool,
    ),
    (
        "|",
        "password",
        rf"((?:\becho|\bprintf)[ \t]+(?:-\w+[ \t]+)?{_QUOTE}){_VALUE}(?={_QUOTE}[ \t]*\|[ \t]*"
        r"(?:sudo[ \t][^\r\n|]{0,80}-S\b|[^\r\n|]{0,200}--password-stdin|"
        r"(?:sudo[ \t]+)?(?:chpasswd|passwd|kinit)\b))",
        _is_something,
    ),
    (
        "",
        "password",
        r"(?i)\b((?:identified[ \t]+(?:with[ \t]+\S{1,60}[ \t]+)?by|password|requirepass|masterauth)[ \t]+"
        rf"{_QUOTE}){_VALUE}",
        is_random,
    ),
    (
        "",
        "secret",
        r"(?i)((?:access|api|auth|client|private|account|[a-z0-9][_.])_?"
        rf"(?:key|token|secret|passw(?:or)?d|passphrase|pass|pat)[ \t{_ESCAPED}]+{_QUOTE}){_VALUE}",
        is_random,
    ),
    (
        ":",
        "password",
        r"((?<=[\w*]):(?:\d{4,5}|\*):(?!\d+:)[^\s:]{1,60}:[^\s:]{1,60}:)"
        rf"([^\s:\"'{_ESCAPED}]{{5,200}})(?=[\s\"'{_ESCAPED}]|\Z)",
        _is_something,
    ),
    (
        "-",
        "secret",
        r"(?i)(?<!\S)(--?(?:[a-z]+-)*(?:passw(?:or)?d|passphrase|(?:store|key)?pass|secret|token|api-?key|"
        r"access-?key|secret-?key)[ \t]+)([^\s\"'`-][^\s\"'`]{3,}|\"[^\"\r\n]{4,}\"|'[^'\r\n]{4,}')",
        lambda value: _is_something(value.strip("\"'")),
    ),
)
