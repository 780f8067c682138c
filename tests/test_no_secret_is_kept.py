"""Nothing that a run leaves or prints has a secret, wherever it came from; harmless text stays as it is."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from collector import Collector
from hypothesis import example, given
from hypothesis import strategies as st
from in_process import Ran, in_process
from llm_server import LlmServer
from playing import ACCEPT, Play, Played, bash, boxed, doing, plan, put, read, write

from kernel.asking.messages import prompt_text
from kernel.document.texts import Pieces
from kernel.errors import ConfigurationError
from runtime.models.provider import Provider
from runtime.secrets.known import learn_secret
from runtime.secrets.redaction import redact
from runtime.workspace.inbox import drop

SECRETS: Mapping[str, str] = {
    "sk-proj-Zq81TopSecretValue77abc": "the key is {}",
    "sk-ant-api03-Zq82TopSecretValue77abc": "{}",
    "gsk_Zq83TopSecretValue77abcZq83TopSecretValue77": "groq {}",
    "ghp_Zq84TopSecretValue77abcZq84TopSecret": "git clone with {} works",
    "glpat-Zq85TopSecretValue77abc": "{}",
    "AKIAZQ86TOPSECRETVAL": "aws {}",
    "xoxb-1234567890-Zq87TopSecret": "{}",
    "hf_Zq88TopSecretValueabcZq88TopSecretVal": "{}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJacTg5In0.Zq89TopSecretValue": "{}",
    "Zq90-top/secret+value": "aws_secret_access_key = {}",
    "Zq91;top,secret&value!": "DB_PASSWORD={}",
    "Zq92topsecret": "password: {}",
    "Zq93topsecret": "mysql --password {} -e 'select 1'",
    "Zq94topsecret": "Authorization: Bearer {}",
    "WnE5NTpUb3BTZWNyZXQ=": "Authorization: Basic {}",
    "Zq96topsecret": "X-API-Key: {}",
    "Zq97topsecret": "Cookie: session={}; theme=dark",
    "Zq98topsecret": "postgres://app:{}@db.example.org/app",
    "Zq99topsecretvalue1234": "https://{}@github.com/a/b",
    "Zr01topsecret": 'client = Client(api_key="{}")',
    "Zr02topsecret": '{{"client_secret": "{}", "a": 1}}',
    "Zr03topsecretvalue==": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x",
    "Zr04topsecret": "curl -u me:{} https://example.org",
    "Zr05topsecret": "export GITHUB_TOKEN={}",
    "Zr06topsecret": "https://example.org/a?access_token={}&page=2",
    "MIIEZr07TopSecretValue": "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "Zr08topsecret": "export GH_PAT={}",
    "Zr09topsecret": "mysql -u root -p{} shop",
    "Zr10topsecret": "sshpass -p {} ssh me@host",
    "Zr11topsecret": "docker login -u bob -p {} registry.example.org",
    "Zr12topsecret": "openssl enc -aes-256-cbc -k {} -in a",
    "Zr13topsecret": "<db:password>{}</db:password>",
    "AKZr14topsecret": "SecretAccessKey {}",
    "Zr15topsecret": "db.example.org:5432:app:bob:{}",
    "localsecret42": "the gateway refused {}",  # of no form: the value of a variable
    "secretofsettings7": "{}",  # of no form: a setting's value
}
LINES = "\n".join(form.format(value) for value, form in SECRETS.items())
HARMLESS = (
    "the password is checked in login.py",
    "token count: 512",
    "max_tokens=200",
    "prompt_tokens: 1200, completion_tokens: 33",
    "3a85a0599c9816af3ccf4f",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "550e8400-e29b-41d4-a716-446655440000",
    "src/auth/token_store.py",
    "key: name, token: identifier, auth: none",
    "key=value token=none",
    "sort_key=lambda each: each.name",
    "primary_key=True",
    'password = os.environ["DB_PASSWORD"]',
    "API_KEY=$API_KEY",
    "Authorization: Bearer <token>",
    "token = get_token()",
    "self.password = password",
    "def login(user, password: str) -> bool:",
    "if password == 'abc': raise",
    "Usage: login --token TOKEN",
    "password_file: /etc/app/password",
    "key_env: MY_GATEWAY_KEY",
    "the secret of success is work",
    "The secret: nobody knows it.",
    "the bearer of news; basic authentication; a cookie banner",
    "monkey=banana12, keyboard: us, tokenizer=cl100k_base, author: Jane",
    "tests passed: 3, passed=12, bypass=yes12345",
    "http://localhost:8080/a@b",
    "git@github.com:owner/repository.git",
    "https://example.com/a?page=2&sort=name",
    "PWD=/srv/somebody/work",
    '<input type="password" name="password">',
    "cache_key=3a85a0599c9816af3ccf4f1234567890",
    "cache-key: build-linux-amd64",
    "sort-key: date-and-name",
    "partition_key: region",
    "key: value",
    "key: linux-npm-3a85a05",
    "restore-keys: linux-amd64-",
    "task=abc12345, disk: ssd12345, path=/usr/lib/x86_64, pattern=abc12345",
    "mysql -u root -p shop; mkdir -p some/dir1; cp -p a1 b2",
    "docker run -p 8080:80 nginx; docker login -u bob --password-stdin",
    "redis-cli -p 6379 ping; ldapsearch -x -b dc=example1; zip -r a1.zip dir",
    "make -k target1; pytest -k test_name1; ssh -p 2222 me@host",
    "sshpass -p $PASSWORD ssh me@host",
    "mysql -u root -p<password> shop",
    "<password></password><key>CFBundleIdentifier1</key><name>secret1234</name>",
    "description: |\n  it is hello world 12\npassword_hint: |\n  the name of a1",
    "the SecretAccessKey is needed, and an access_token expires",
    "src/a.py:10:5: error: name1; a.py:12:3:error:expected1234; 10:20:30:40:word1234",
    "log in with password authentication",
    "echo hello12345 | sort",
    "<privateKey>/path/to/private/key</privateKey>",
    "COMP_KEY _ARGCOMPLETE_COMP_WORDBREAKS COMP_WORDS",
    "2001:db8:85a3:1234:4321:8a2e:0370:7334",
    "commit 999c9816, tree 6dcd4ce23d88e2ee9568ba546c007c63d9131c1b",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a gateway's key; what a process has learned of settings is learned here."""
    home = tmp_path / "home"
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state")):
        monkeypatch.setenv(name, str(home / folder))
    monkeypatch.setenv("GATEWAY_KEY", "localsecret42\r\n")
    (home / "config").mkdir(parents=True)
    _Unasked("openai/m", options={"extra_headers": {"x-api-key": "secretofsettings7"}})
    return home


class _Unasked(Provider):
    async def send(self, ask: Any, seconds: float) -> Any: ...
    async def load(self) -> None: ...
    def form_of(self, ask: Any) -> Any: ...


def told(text: str) -> list[str]:
    """The secrets that a text has."""
    return [each for each in SECRETS if each in text or json.dumps(each)[1:-1] in text]


def left(*folders: Path, besides: Iterable[str] = ()) -> list[tuple[str, str]]:
    """The files below these folders that have a secret, but for the user's own."""
    return [
        (str(path), secret)
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.name not in besides
        for secret in told(path.read_bytes().decode("utf-8", "replace"))
    ]


def kept_or_printed(played: Played, *besides: str) -> list[Any]:
    shown = json.dumps([each.as_dict() for each in played.events], ensure_ascii=False, default=str)
    work = played.fractal.workspace.folder
    return [*told(f"{shown}\n{played.result}"), *left(work, Path(os.environ["HOME"]), besides=besides)]


def test_nothing_that_a_run_leaves_or_prints_has_a_secret(play: Play, tmp_path: Path) -> None:
    put(tmp_path / "work", "planted.txt", LINES)
    copy = write("copy.txt", "{{ steps[1].result }}")

    def answer(ask: Any) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": f"it is there:\n{LINES}"}
        return plan(
            read("planted.txt"), copy, write("made.txt", LINES), success=[{"file": "made.txt", "has": "key"}]
        )

    played = play(
        answer, task=f"copy planted.txt, and make made.txt of:\n{LINES}", settings={"keep_prompts": True}
    )
    assert played.root.meta.status == "complete"
    assert kept_or_printed(played, "planted.txt", "copy.txt", "made.txt") == []
    for name in ("copy.txt", "made.txt"):
        assert (tmp_path / "work" / name).read_text("utf-8").rstrip() == LINES, "what is executed is exact"


@boxed
def test_output_of_a_command_is_kept_without_secrets(play: Play, tmp_path: Path) -> None:
    put(tmp_path / "work", "planted.txt", LINES)
    played = play(doing(bash("cat planted.txt; cat planted.txt >&2; exit 1")), settings={"sandbox": "auto"})
    assert "[redacted" in str(played.root.steps[1].result)
    assert kept_or_printed(played, "planted.txt") == []


def test_answer_of_a_person_is_kept_without_secrets_and_used_exactly(play: Play, tmp_path: Path) -> None:
    waiting = play(lambda ask: {"task": "write it down", "question": "which text?"})
    drop(waiting.folder, "answer", text=LINES)
    assert kept_or_printed(waiting) == []
    seen: list[str] = []

    def answer(ask: Any) -> Any:
        seen.append(prompt_text(ask))
        return (
            ACCEPT if ask.phase == "check" else plan(write("made.txt", "x"), success=[{"file": "made.txt"}])
        )

    played = play(answer, resume=waiting.result.run)
    assert any("Zq92topsecret" in each for each in seen), "the model gets what the person said"
    assert kept_or_printed(played) == []


def test_arguments_are_exact_after_a_restart(play: Play, tmp_path: Path) -> None:
    played = play(doing(write("made.txt", LINES)), plan_only=True)
    assert kept_or_printed(played) == []
    drop(played.folder, "approve")
    assert play(doing(), resume=played.result.run).root.meta.status == "complete"
    assert (tmp_path / "work" / "made.txt").read_text("utf-8") == LINES


def fractal(folder: Path, *words: str, stdin: str = "", **env: str) -> Ran:
    folder.mkdir(exist_ok=True)
    return in_process(folder, words, {**os.environ, "FRACTAL_TRUST": "all", **env}, stdin)


def test_what_is_remembered_has_no_secret(tmp_path: Path, home: Path) -> None:
    for line in LINES.replace("KEY-----\n", "KEY-----").replace("\n-----END", "-----END").splitlines():
        ran = fractal(tmp_path / "work", "remember", f"note: {line}")
        assert told(ran.out + ran.err) == []
    assert left(tmp_path / "work", home) == []


def test_error_of_a_provider_is_printed_and_kept_without_secrets(
    tmp_path: Path, home: Path, llm_server: LlmServer
) -> None:
    for _ in range(4):
        llm_server.fail(500, message=LINES)
    ladder = [
        {
            "model": "openai/m",
            "api_base": llm_server.url,
            "options": {"key_env": "GATEWAY_KEY", "retries": 2, "backoff": 0.01},
        }
    ]
    ran = fractal(tmp_path / "work", "run", "put the quote into note.txt", FRACTAL_LADDER=json.dumps(ladder))
    assert ran.exit == 4 and told(ran.out + ran.err) == []
    assert left(tmp_path / "work", home) == []
    sent = {
        {key.lower(): value for key, value in headers.items()}.get("authorization")
        for _, headers, _ in llm_server.requests
    }
    assert sent == {"Bearer localsecret42"}, "the line end is stripped"


GIVEN = ("localsecret42", "teamsecret77", "cookiesecret88")
"""A key and the values of two headers, all of no known form."""
TOLD_AGAIN: Mapping[str, Callable[[str], str]] = {
    "plain": lambda each: f"no key {each} is known",
    "bearer": lambda each: f"Authorization: Bearer {each}",
    "of Python": lambda each: f"Illegal header value b'Bearer {each}\\r'",
    "as JSON": lambda each: json.dumps({"headers": {"authorization": f"Bearer {each}"}}),
    "in JSON of JSON": lambda each: json.dumps(json.dumps({"x-team": each})),
    "in an address": lambda each: f"https://{each}@example.org/v1?team={each}",
    "percent": lambda each: "".join(f"%{ord(sign):02x}" if sign == "s" else sign for sign in quote(each)),
    "Basic": lambda each: f"Basic {base64.b64encode(f'me:{each}'.encode()).decode()}",
    "Base64": lambda each: base64.b64encode(each.encode()).decode(),
    "Base64 for addresses": lambda each: base64.urlsafe_b64encode(f"a{each}".encode()).decode(),
    "hexadecimal": lambda each: each.encode().hex(),
    "HEXADECIMAL": lambda each: each.encode().hex().upper(),
    "capitals": str.upper,
    "for a shell": lambda each: f"curl -H 'x-team: {each}' -H \"Cookie: a={each}; b=1\"",
    "as a variable": lambda each: f"OPENAI_API_KEY={each}",
    "YAML": lambda each: f"headers:\n  x-team: '{each}'",
    "HTML": lambda each: f"<td>key</td><td>{each}</td>",
    "numbered": lambda each: "".join(f"\\u{ord(sign):04x}" for sign in each),
    "a list": lambda each: f"[('authorization', 'Bearer {each}'), ('x-team', '{each}')]",
    "in a path": lambda each: f"/srv/keys/{each}/v1",
    "doubled": lambda each: f"{each}{each}",
    "in a sentence": lambda each: f"the key “{each}”, which ends with {each}, is wrong.",
}
"""How a server, or a library on the way, repeats what it was sent."""


def test_no_key_and_no_header_is_anywhere_however_it_is_told_again(
    tmp_path: Path, home: Path, llm_server: LlmServer
) -> None:
    said = ["; ".join(map(again, GIVEN)) for again in TOLD_AGAIN.values()]
    for each in said:
        llm_server.fail(500, message=each)
    text = "\n".join(said)
    llm_server.say(json.dumps(plan(write("note.txt", text), success=[{"file": "note.txt", "has": "key"}])))
    rung = {"model": "openai/m", "api_base": llm_server.url, "key_command": ["printf", "localsecret42\\r\\n"]}
    rung["headers"] = {"X-Team": "${TEAM}", "Cookie": "a=cookiesecret88; theme=dark"}
    rung["options"] = {"retries": len(said), "backoff": 0.0, "form": "json"}
    with Collector().running() as collector:
        settings = {"FRACTAL_LADDER": json.dumps([rung]), "TEAM": "teamsecret77\r", "FRACTAL_DEBUG": "1"}
        settings |= {"FRACTAL_OTEL": collector.url, "FRACTAL_OTEL_CONTENT": "true"}
        settings |= {"FRACTAL_EMBEDDER": "lexical", "FRACTAL_REMEMBER": "false"}
        ran = fractal(tmp_path / "work", "run", "put the quote into note.txt", **settings)
        shown = fractal(tmp_path / "work", "show", "--json", **settings)
        config = fractal(tmp_path / "work", "config", **settings)
        spans = str(collector.spans)
    assert ran.exit == 0, ran.err
    assert llm_server.requests[-1][1]["x-team"] == "teamsecret77"
    told = {"terminal": ran.out + ran.err, "show": shown.out, "config": config.out, "spans": spans}
    files = [path for place in (tmp_path / "work", home) for path in place.rglob("*") if path.is_file()]
    told |= {str(each): each.read_text("utf-8", "replace") for each in files if each.name != "note.txt"}
    assert len(files) > 5 and spans
    forms = [each for value in GIVEN for each in (value, value.upper(), value.encode().hex())]
    forms += [
        base64.b64encode(f"{before}{each}".encode()).decode() for each in GIVEN for before in ("", "me:")
    ]
    assert [(place, form) for place, text in told.items() for form in forms if form in text] == []


SERVER = """
import json, sys
from pathlib import Path
lines = Path(sys.argv[1]).read_text()
print(lines, file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32000, "message": lines}}
        print(json.dumps(answer), flush=True)
"""


def test_error_of_a_tool_server_is_printed_and_kept_without_secrets(tmp_path: Path, home: Path) -> None:
    planted, program = put(tmp_path, "planted.txt", LINES), put(tmp_path, "server.py", SERVER)
    entry = {"command": sys.executable, "args": [str(program), str(planted)]}
    put(tmp_path / "work", ".mcp.json", json.dumps({"mcpServers": {"bad": entry}}))
    ran = fractal(tmp_path / "work", "tools", "ls")
    assert "bad" in ran.out + ran.err and told(ran.out + ran.err) == []
    assert left(tmp_path / "work", home) == []


@pytest.mark.parametrize(
    "key", ["localsecret42\r", "localsecret42\n", " localsecret42 ", "\tlocalsecret42\r\n"]
)
def test_key_is_stripped(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("GATEWAY_KEY", key)
    assert _Unasked("openai/m").key("GATEWAY_KEY") == "localsecret42"


@pytest.mark.parametrize(
    "key", ["sk-proj-Zq81\u2013TopSecret", "local\rsecret42", "localsecret42\x00"[:-1] + "\x1b["]
)
def test_key_that_no_request_can_carry_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("GATEWAY_KEY", key)
    with pytest.raises(ConfigurationError, match="GATEWAY_KEY") as refused:
        _Unasked("openai/m").key("GATEWAY_KEY")
    assert "ecret" not in str(refused.value)


@pytest.mark.parametrize("secret", SECRETS)
def test_each_form_is_redacted_once_and_for_all(secret: str) -> None:
    text = redact(SECRETS[secret].format(secret))
    assert secret not in text and "[redacted " in text
    assert redact(text) == text


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


NAMES = st.builds(
    lambda before, word, join: join.join(filter(None, (before, word))),
    st.sampled_from(["", "db", "app", "my", "aws", "stripe", "smtp"]),
    st.sampled_from(
        ["password", "passwd", "secret", "token", "api_key", "access_key", "private_key", "auth_token"]
    ),
    st.sampled_from(["_", "-"]),
)
VALUES = st.from_regex(r"[a-z][0-9][A-Za-z0-9!#$%*+,/<=?@^_|~]{8,30}[A-Za-z0-9]", fullmatch=True)


@given(
    NAMES,
    VALUES,
    st.sampled_from(["{}={}", '{}="{}"', "{} = '{}'", "export {}={}", "run {}={} now", '"{}": "{}"']),
)
def test_value_of_a_secret_name_is_redacted(name: str, value: str, form: str) -> None:
    for written in (name, name.upper()):
        assert value not in redact(form.format(written, value))


CUT = """
machine example.org login me
  password Zq94topsecret
the api key: Zq99topsecretvalue1234 and DB_PASSWORD='it is Zq92topsecret yes'
its client_secret  :  Zq93topsecret, its "client_secret" : "Zq98topsecret", its secret is  Zr02topsecret
curl -u me:Zr04topsecret --token 'of Zr06topsecret'; signature = Zr03topsecretvalue==
Cookie : session=Zq97topsecret; theme=dark
-----BEGIN RSA PRIVATE KEY-----
MIIEZr07TopSecretValue
-----END RSA PRIVATE KEY-----
PASSWORD: |
  Zr08topsecret
  and Zr09topsecret
<token>
  Zr10topsecret
</token>
echo Zr11topsecret | sudo -S ls; docker login -u bob -p Zr12topsecret
the phrase is local of Zq96topsecret words, I say
"""


@given(st.lists(st.integers(1, 30), max_size=60))
@example([1] * 2_500)  # each character by itself
def test_reply_that_is_shown_while_it_comes_has_no_secret(sizes: list[int]) -> None:
    learn_secret("PHRASE", "local of Zq96topsecret words")
    text, shown = f"I write:\n{LINES}\n{CUT}and that is all that there is.", list[str]()
    pieces = Pieces(shown.append)
    for size in [*sizes, len(text)]:
        pieces(text[:size])
        text = text[size:]
    pieces.end()
    assert told("".join(shown)) == [] and "".join(shown).endswith("all that there is.")
