"""Prepares text for display: shows control characters, redacts secrets, cuts long texts.

There is one redactor: `redact`. It knows a secret by its value (`learn_secret`, the environment, and what
runs keep in `kernel.store.exact`), and by its form. Everything that a person, a file, a program or a server
gets to see goes through it; only what is executed does not.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import isfinite
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
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])"
)
"""What tells a terminal to colour text, to move the cursor, or to name its window."""
_LONE_RETURN = re.compile(r"\r(?!\n)")

HIDDEN = re.compile(r"(\[redacted [^\[\]\n]{1,80}) ([0-9a-f]{10})\]")
"""What stands in the place of a secret in what a run stores: its name, and the ID of its value."""
HELD = 2_000
"""Characters that are held back from which it is looked less often whether they can be shown."""
PIECE = 12
"""Characters of a reply that are shown at once while it is written."""
LEAST = 8
"""Minimum characters of a known secret: shorter values occur in ordinary words."""
LONG = 20
"""Characters from which a value that a run keeps is known by itself although it has no digit."""
JUMBLED = 0.5
"""Changes between small letters, capitals and digits, by character, from which a text is a jumble."""
Mark = Callable[[str, str], str]
"""What stands in the place of a secret, from its name and its value."""

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


_BEARER = re.compile(r"(?i)\b(bearer[ \t]+)([A-Za-z0-9._~+/=-]{16,})")
_SIGNED = re.compile(r"(?i)([?&](?:x-(?:amz|goog|oss|cos)-)?signature=)([\w%+/=-]{16,})")
_KEY_DATA = re.compile(r"(-key-data[\"']?[ \t]*:[ \t]*[\"']?)([\w+/=]{40,})")
_SSWS = re.compile(r"\b(SSWS[ \t]+)([\w-]{20,})")
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


def printed(text: str) -> str:
    """What a terminal shows of a program's output in the end: no colours, of a progress bar its last state.

    A carriage return before a line feed is kept.
    """
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return "\n".join(map(_last_state, text.split("\n"))) if "\r" in text else text


def _last_state(line: str) -> str:
    """The text that was written last over a line."""
    kept = line.rstrip("\r")
    return kept.rpartition("\r")[2] + line[len(kept) : len(kept) + 1]


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
_of_folders: dict[str, str] = {}
_of_runs: dict[str, str] = {}
MOST_OF_RUNS = 2_000
"""Spellings of values of runs that a process knows; the oldest are forgotten first."""


def learn_secret(name: str, value: str) -> None:
    """From now on this value is a secret of the process, whatever its form; `name` stands in its place."""
    _learned.update(_spellings(name, value))


def learn_value(name: str, value: str) -> None:
    """From now on a secret that a run keeps is known wherever it stands, unless it looks like a word."""
    if _is_random(value) or (len(value) >= LONG and not _is_word(value)):
        for spelling in _spellings(name, value):
            _of_runs.pop(spelling, None)
            _of_runs[spelling] = name
        for spelling in list(_of_runs)[:-MOST_OF_RUNS]:
            del _of_runs[spelling]


def learn_secrets(values: Any, *, ours: bool = True) -> None:
    """Learn each text of settings whose name says that it is a secret, such as `api_key`.

    Those of a file that comes with a folder are not `ours`: nobody has given them to the process, and they
    hide nothing in what a person approves. Raises `ValueError` for values that contain themselves.
    """
    begun, done = set[int](), set[int]()  # YAML may name a list in many places, and in itself

    def learn(each: Any) -> None:
        if id(each) in done or not isinstance(each, list | Mapping):
            return
        if id(cast(Any, each)) in begun:
            raise ValueError("it contains itself")
        begun.add(id(cast(Any, each)))
        named = isinstance(each, Mapping)
        items = cast(Mapping[Any, Any], each).items() if named else enumerate(cast(list[Any], each))
        for name, value in items:
            if not isinstance(value, str) or not names_secret(str(name)):
                learn(value)
            elif not value.startswith(("/", "~", "$")):  # else it says where the secret is
                (_learned if ours else _of_folders).update(_spellings(str(name), value))
        done.add(id(cast(Any, each)))

    learn(values)


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
    """A secret as it is, and as addresses, JSON, a shell, Base64, hexadecimal digits and capitals write it.

    None if it is too short. A part of a secret is not looked for, since it could be any text, nor one that is
    broken into lines: what stands between its parts may be anything.
    """
    value = value.strip()
    if len(value) < LEAST:
        return {}
    raw = value.encode("utf-8", "surrogatepass")
    code, in_json, in_address = raw.hex(), json.dumps(value)[1:-1], quote(raw, safe="")
    in_lower = re.sub("%..", lambda hit: hit[0].lower(), in_address)
    numbered = "".join(f"\\u{ord(each):04x}" for each in value)
    quoted = re.sub(r"([^\w@%/.,:-])", r"\\\1", value)
    coded = [base64.b64encode(raw).decode().rstrip("="), _within_base64(raw, 1), _within_base64(raw, 2)]
    forms = [
        value,
        in_address,
        in_lower,
        in_json,
        in_json.replace("/", r"\/"),
        code,
        code.upper(),
        numbered,
        quoted,
    ]
    forms += [*coded, *(each.replace("+", "-").replace("/", "_") for each in coded)]
    forms += [value.upper(), value.lower()] if any(map(str.isdigit, value)) else []  # else it may be a word
    return dict.fromkeys(forms, name)


def _within_base64(raw: bytes, before: int) -> str:
    """What Base64 makes of bytes behind others, such as a user's name, whatever stands around them."""
    whole = (before + len(raw)) // 3 * 4
    return base64.b64encode(bytes(before) + raw).decode()[4:whole]


_HTML_NAMES = {
    "&": "amp",
    "<": "lt",
    ">": "gt",
    '"': "quot",
    "'": "apos",
    "+": "plus",
    "/": "sol",
    "=": "equals",
}


@lru_cache(maxsize=4096)
def _longest_part(value: str) -> str:
    """What HTML leaves as it is of a value."""
    return max(re.split(r"[^A-Za-z0-9]+", value), key=len)


@lru_cache(maxsize=128)
def _in_html(value: str) -> re.Pattern[str]:
    """A value as HTML writes it: each sign by itself, by its name, or by its number in one of two bases."""

    def ways(sign: str) -> str:
        named = f"|{_HTML_NAMES[sign]}" if sign in _HTML_NAMES else ""
        return rf"(?:{re.escape(sign)}|&(?:#0*{ord(sign)}|#[xX]0*(?i:{ord(sign):x}){named});)"

    return re.compile("".join(each if each.isalnum() else ways(each) for each in value))


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
        self._show, self._held, self._next = show, "", 0

    def __call__(self, text: str) -> None:
        """Take the next piece."""
        self._held += text
        if len(self._held) < self._next:  # looking at each piece of what cannot be shown yet is quadratic
            return
        at = max(self._held.rfind("\n"), self._held.rfind(" ")) + 1
        first, rest = self._held[:at], self._held[at:]
        if at >= PIECE and _is_whole(first) and redact(first) + redact(rest) == redact(self._held):
            self._show(redact(first))
            self._held, self._next = rest, 0
        elif len(self._held) > HELD:
            self._next = len(self._held) * 5 // 4

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
    """The text without the values of secrets that this process was given. Nothing is hidden for its form.

    What a run keeps was taken for a secret by its form, and could be a part of what runs.
    """
    return type(text)(_without_values(text, _given(), _named_only))


def _named_only(name: str, value: str) -> str:
    return f"[redacted {name}]"


def redact_kept(text: str) -> str:
    """The text as `redact` returns it, but with the IDs in `[redacted NAME ID]`: a document stays one."""
    return redactor(_named_only)(text)


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


def shown(value: Any) -> Any:
    """A JSON value without secrets, with null for NaN and infinity.

    Nothing is hidden for its form in its `question`, or that in `waiting`: a person approves it.
    """
    return _shown(value, redactor(), asked=True)


def _shown(value: Any, redact: Callable[[str], str], *, asked: bool = False) -> Any:
    if isinstance(value, list | tuple):
        return [_shown(each, redact) for each in cast(list[Any], value)]
    if not isinstance(value, Mapping):
        return None if isinstance(value, float) and not isfinite(value) else redacted(value, redact)
    shown: dict[str, Any] = {}
    for name, each in cast(Mapping[str, Any], value).items():
        if isinstance(each, str):
            question = asked and name == "question"
            shown[redact(name)] = redact_values(each) if question else _named(name, each, redact)
        else:
            shown[redact(name)] = _shown(each, redact, asked=name == "waiting")
    return shown


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
    if "&" in text and ";" in text:
        for value, name in secrets.items():
            if not value.isalnum() and _longest_part(value) in text:
                text = _in_html(value).sub(lambda hit, name=name: mark(name, hit[0]), text)
    there = [value for value in secrets if value in text]
    if not there:
        return text
    known = re.compile("|".join(map(re.escape, sorted(there, key=len, reverse=True))))
    return known.sub(lambda hit: mark(secrets[hit[0]], hit[0]), text)


def _known() -> dict[str, str]:
    """The secrets that are known by value, each with its name."""
    return _of_runs | _of_folders | _given()


def _given() -> dict[str, str]:
    """Those of the environment, the settings and the servers, each with its name."""
    return _learned | _named_by(tuple(os.environ.items()))


@lru_cache(maxsize=4)
def _named_by(environment: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The secrets in an environment, each with the name of its variable."""
    secrets: dict[str, str] = {}
    for name, value in environment:
        if names_secret(name) and not _NOTHING.match(value) and not _is_path(value):
            secrets |= _spellings(name, value)
        elif (hit := _IN_ADDRESS.search(value) or _IN_DSN.search(value)) and not _is_nothing(hit[2]):
            secrets |= _spellings(name, hit[2])
    return secrets


def _is_path(value: str) -> bool:
    try:
        return value.startswith("/") and Path(value).exists()
    except OSError:  # too long for one
        return False


def _without_tokens(text: str, mark: Mark) -> str:
    for hint, name, form in _SHAPES:
        if hint in text:

            def marked(hit: re.Match[str], name: str = name) -> str:
                jumble = hit.groupdict().get("jumbled")
                return hit[0] if jumble and not _is_jumbled(jumble) else mark(name, hit[0])

            text = _shape(hint, form).sub(marked, text)
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
    if not _is_secret_of(name, value.strip(f" \t\r\n{_ESCAPED}")):
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


def _is_random(value: str) -> bool:
    """Whether a value that stands beside a word about a secret is one itself, and no word."""
    if len(value) < 8 or "." in value or _is_word(value):
        return False
    if re.search(r"\d", value):
        return bool(re.search(r"[A-Za-z]", value))
    return len(value) >= 20 and value.isalpha() and value.lower() != value != value.upper()


def _is_word(value: str) -> bool:
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
        first = int(room * head)
        return text[: _before(text, first)] + mark + text[_after_secret(text, len(text) - room + first) :]
    first = int(room * head)
    first, last = _before(text, first), _after_secret(text, len(text) - room + first)
    gone = 0
    for each in earlier:
        if each.start() < last and each.end() > first:
            first, last = min(first, each.start()), max(last, each.end())
            gone += int(each[1]) - len(each[0])
    return f"{text[:first]}\n[… {last - first + gone} characters cut{named} …]\n{text[last:]}"


AROUND, AROUND_KEY = 400, 4_000
"""Characters around a place that are searched for a secret across it; in a text with private keys."""
_FILL = "\ue001"


def _before(text: str, at: int) -> int:
    """A place in a text, or the begin of the secret that it is in: half of one has no form any more."""
    return at - len(_secret_across(text, at)[0])


def _after_secret(text: str, at: int) -> int:
    """A place in a text, or the end of the secret that it is in."""
    return at + len(_secret_across(text, at)[1])


def _secret_across(text: str, at: int) -> tuple[str, str]:
    """The parts of a secret before and after a place; empty if none goes across it."""
    room = AROUND_KEY if "PRIVATE KEY" in text else AROUND
    start = max(at - room, 0)
    around = text[start : at + room]
    filled = redactor(lambda name, value: _FILL * len(value))(around)
    here = at - start
    if len(filled) != len(around) or filled[here - 1 : here + 1] != 2 * _FILL:
        return "", ""
    left, right = filled[:here], filled[here:]
    before, after = len(left) - len(left.rstrip(_FILL)), len(right) - len(right.lstrip(_FILL))
    return text[at - before : at], text[at : at + after]


_CUT = re.compile(r"\n\[… (\d{1,12}) characters cut(?:; whole in [^\n]{1,300})? …\]\n")


_Form = tuple[str, str, re.Pattern[str], Callable[[str], bool]]
_TOKENS_AFTER: tuple[_Form, ...] = (
    ("://", "password", _IN_ADDRESS, lambda value: not _REFERENCE.match(value)),
    ("bearer", "token", _BEARER, bool),
    ("ssws", "token", _SSWS, bool),
    ("signature=", "signature", _SIGNED, bool),
    ("-key-data", "private key", _KEY_DATA, bool),
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
