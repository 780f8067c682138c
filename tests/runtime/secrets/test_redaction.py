"""Redaction of secrets, neutralised terminal escapes, and cut texts."""

from __future__ import annotations

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import every, within

from kernel.document.texts import Pieces, cut
from runtime.secrets.redaction import redact, redactor
from runtime.text.terminal import neutralise


def test_terminal_escapes_are_neutralised() -> None:
    assert neutralise("\x1b[31mred\x1b]0;title\x07\x9b2J") == "␛[31mred␛]0;title␇\\x9b2J"
    assert neutralise("10%\r20%\r\nnext\tcolumn\n") == "10%␍20%\r\nnext\tcolumn\n"


@given(st.text())
def test_neutralising_removes_only_control_characters(text: str) -> None:
    shown = neutralise(text)
    left = shown.replace("\r\n", "").replace("\t", "").replace("\n", "")
    assert not [each for each in left if ord(each) < 32 or 0x7F <= ord(each) < 0xA0]
    assert neutralise(shown) == shown
    if text.isprintable():
        assert shown == text


ENVIRON = {
    "OPENAI_API_KEY": "abcdefgh12345678",
    "DB_PASSWORD": "hunter2hunter2",
    "GITHUB_TOKEN": "abcdefgh",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG",
    "PIN_SECRET": "1234567",
    "HOME": "/srv/somebody",
    "SSH_KEY_PATH": "/srv/somebody/key",
    "MONKEY": "bananabanana",
    "PWD": "/srv/somebody/work",
    "DB_PWD": "letmein-letmein",
    "GPG_AGENT_INFO": "/run/somebody/agent:0:1",
    "SSH_AUTH_SOCK": "/run/somebody/ssh-agent",
    "XAUTHORITY": "/srv/somebody/xauthority",
    "DISK": "nvme-disk-one",
    "SAMPLE_AUTH": "disabled",
    "APP_SALT": "/usr/bin",
}


def test_secret_environment_values_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    text = "key=abcdefgh12345678 pass hunter2hunter2 abcdefgh wJalrXUtnFEMI/K7MDENG letmein-letmein"
    assert redact(text) == (
        "key=[redacted OPENAI_API_KEY] pass [redacted DB_PASSWORD] [redacted GITHUB_TOKEN] "
        "[redacted AWS_SECRET_ACCESS_KEY] [redacted DB_PWD]"
    )
    plain = "1234567 /srv/somebody /srv/somebody/key bananabanana /srv/somebody/work/a.py"
    plain += (
        " /run/somebody/agent:0:1 /run/somebody/ssh-agent /srv/somebody/xauthority nvme-disk-one disabled"
    )
    plain += " /usr/bin/env"
    assert redact(plain) == plain


@pytest.mark.parametrize(
    "name",
    [
        *(
            "GH_PAT",
            "PAT",
            "STRIPE_SK",
            "AUTH",
            "NPM_AUTH",
            "WEBHOOK_SIGNING",
            "SIGNING_SEED",
            "VAULT_UNSEAL",
        ),
        *(
            "VAULT_UNSEAL_1",
            "PASSWORD_SALT",
            "SLACK_WEBHOOK",
            "SLACK_WEBHOOK_URL",
            "SSHPASS",
            "REDISCLI_AUTH",
        ),
    ],
)
def test_value_of_a_variable_with_a_secret_name_is_redacted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "of no form at all")
    assert redact("it is of no form at all.") == f"it is [redacted {name}]."


@pytest.mark.parametrize(
    "value",
    ["mysql://me:form-less@db/x", "me:form-less@tcp(db:3306)/x", "host=db password=form-less dbname=x"],
)
def test_password_of_a_data_source_is_redacted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_DSN", value)
    assert redact("it is form-less, for x") == "it is [redacted APP_DSN], for x"


FORMS = (
    *("GITLAB_PAT={}", "docker run -e STRIPE_SK={} x", "WEBHOOK_SIGNING={}", "VAULT_UNSEAL={}", "A_SALT={}"),
    *('{{"gh_pat": "{}"}}', "SLACK_WEBHOOK=https://example.org/hook/{}", "secret_key_base: {}0123456789"),
    *("mysql -p{}", "mysqldump -uroot -p'{}' db", 'mariadb --user=root -p"{}"', "7z x -p{} a.7z"),
    *("mysql -h db \\\n  -u root \\\n  -p{}", "cd a && mysql -u root -p{} | sort"),
    *("sshpass -p{} ssh me@host", "sshpass -p '{}' ssh me@host", "PGPASSWORD={} psql -h x"),
    *("docker login registry.example.org -u bob -p {}", "podman login -p {} -u bob", "az login -u bob -p {}"),
    *("helm registry login -u bob -p {}", "mongosh --username bob -p {}", "openssl rsa -passin pass:{}"),
    *("redis-cli -h host -a {} ping", "requirepass {}", "curl -sSu me:{} https://example.org"),
    *("htpasswd -b file bob {}", "htpasswd -nbB bob {}", "ldapsearch -x -D cn=admin -w {} -b dc=x"),
    *("smbclient //host/share -U bob%{}", "zip -P {} a.zip a", "gpg --batch --passphrase {} -d a"),
    *("sqlcmd -S host -U sa -P {}", "snmpget -v3 -A {} -X {} host", "lftp -u bob,{} host", "plink -pw {} a"),
    *("keytool -storepass {} -keystore a", "net use Z: /user:bob {}", "xfreerdp /u:bob /p:{} /v:host"),
    *("rabbitmqctl add_user bob {}", "echo {} | sudo -S ls", "echo 'bob:{}' | sudo chpasswd"),
    *("echo {} | docker login -u bob --password-stdin", "CREATE USER bob IDENTIFIED BY '{}'"),
    *("ALTER USER bob WITH PASSWORD '{}'", "aws configure set aws_secret_access_key {}"),
    *("git config user.password {}", "ENV DB_PASSWORD {}", "SecretAccessKey\t{}", "password = {}"),
    *("machine example.org\nlogin me\npassword {}", "machine example.org login me password {}"),
    *("*:*:*:bob:{}", "db.example.org:5432:app:bob:{}\nother:5432:app:bob:{}"),
    *("<password>{}</password>", '<ns:Password type="x">{}</ns:Password>', "<apiKey>\n  {}\n</apiKey>"),
    *("<clientSecret><![CDATA[{}]]></clientSecret>", '<add key="password" value="{}"/>'),
    *('<property name="hibernate.connection.password">{}</property>',),
    *("key=abc&password={}&b=1", "A_PAT=x;DB_PASSWORD={}", "token=none&key=a&my_token={}"),
    *("PASSWORD: |\n  {}", "a:\n  api_key: >-\n    {}\n  b: 1", "db_password: |\n  one {}\n  two {}\nb: 1"),
)


@pytest.mark.parametrize("form", FORMS)
def test_secret_of_a_command_or_a_file_is_redacted(form: str) -> None:
    text = form.format(*["Zs01topsecret"] * 2)
    hidden = redact(text)
    assert "Zs01" not in hidden and "[redacted " in hidden and redact(hidden) == hidden
    assert hidden.split("[redacted ")[0] == text[: len(hidden.split("[redacted ")[0])]
    for inside in (json.dumps({"text": text}), json.dumps([f"{text}\n"])):
        assert "Zs01" not in redact(inside)
        json.loads(redact(inside))
    shown = list[str]()
    pieces = Pieces(shown.append)
    for each in f"this is it:\n{text}\n":
        pieces(each)
    pieces.end()
    assert "Zs01" not in "".join(shown)


def test_what_is_hidden_already_stays_as_it_is() -> None:
    text = "[redacted password 3f9a2c1b07] and [redacted DB_PASSWORD 3f9a2c1b07]"
    assert redactor(lambda name, value: f"[redacted {name} 0000000000]")(text) == text


def test_what_stands_around_a_block_or_an_element_stays() -> None:
    block = redact(
        "a:\n  password: |\n    one Zs01\n\n    two\n  size: 12\nb: <token>Zs01topsecret</token> x"
    )
    assert block.startswith("a:\n  password: |\n    [redacted password]\n")
    assert block.endswith("\n  size: 12\nb: <token>[redacted token]</token> x")


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-" + "a1B2" * 10,
        "sk-ant-api03-" + "x9_-" * 10,
        "ghp_" + "A1b2" * 9,
        "github_pat_" + "A1b2_" * 8,
        "glpat-" + "abcde12345" * 2,
        "AKIA" + "ABCDEFGH12345678",
        "xoxb-1234567890-abcdef",
        "AIza" + "a" * 35,
        "hf_" + "a" * 34,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
    ],
)
def test_known_secret_forms_are_redacted(secret: str) -> None:
    redacted = redact(f"before {secret}")
    assert redacted.startswith("before [redacted ")
    assert secret[12:] not in redacted


def test_bearer_tokens_and_passwords_in_urls_are_redacted() -> None:
    assert redact("Authorization: Bearer abcdef0123456789abcdef") == "Authorization: Bearer [redacted token]"
    assert redact("postgres://me:letmein99@db/x") == "postgres://me:[redacted password]@db/x"


@pytest.mark.parametrize(
    "text",
    [
        "a task-list-of-many-words-and-more",
        "sk-learn-contrib-and-friends-of-it",
        "http://localhost:8080/a@b",
        "the bearer of news",
        "ASIAN FOOD",
        "AKIA is short",
        "key=value token=none",
    ],
)
def test_ordinary_words_are_not_redacted(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "-----BEGIN PRIVATE KEY-----\n",
        "sk-",
        "eyJ",
        "a://b:",
        "bearer ",
        "ghp_",
        "eyJaaaaaaaa.",
        "-",
        "\x1b",
        "mysql ",
        "echo a1b2c3d4 |",
        "htpasswd -b ",
        "<password>",
        "<password a",
        'name="password" ',
        "password: |\n  ",
        "a_pat",
        "db:5432:",
        "user_password ",
        "SIGNING_",
        "page=a&key=b&size=c&",
    ],
)
def test_redaction_of_a_megabyte_is_fast(piece: str) -> None:
    text = piece * (1_000_000 // every(5) // len(piece))
    with within(2):
        redact(neutralise(text))


@given(st.text(), st.integers(0, 200), st.sampled_from(["", "artifacts/x.txt"]))
def test_cut_stays_within_its_limit(text: str, limit: int, where: str) -> None:
    shortened = cut(text, limit, where)
    assert len(shortened) <= max(limit, 0)
    if len(text) <= limit:
        assert shortened == text


@given(st.text(), st.integers(60, 300), st.integers(60, 300), st.integers(1, 9))
def test_what_is_cut_twice_says_how_much_it_has_lost(text: str, first: int, second: int, times: int) -> None:
    whole = text * times
    shortened = cut(cut(whole, first, "x"), second, "y")
    assert len(shortened) <= second
    marks = re.findall(r"\n\[… (\d+) characters cut[^\n]*\]\n", shortened)
    if len(whole) > min(first, second) and "\n[…]\n" not in shortened:
        assert len(marks) == 1
        assert int(marks[0]) == len(whole) - len(re.sub(r"\n\[… \d+ characters cut[^\n]*\]\n", "", shortened))


def test_cut_prefers_the_tail_and_names_the_whole() -> None:
    text = "".join(f"{number:05}\n" for number in range(1_000))
    shortened = cut(text, 500, "artifacts/x.txt")
    head, mark, tail = (
        shortened.partition("\n[… ")[0],
        shortened.split("[… ")[1].split(" …]")[0],
        shortened.split(" …]\n")[1],
    )
    assert text.startswith(head)
    assert text.endswith(tail)
    assert mark == f"{len(text) - len(head) - len(tail)} characters cut; whole in artifacts/x.txt"
    assert len(tail) > 1.9 * len(head)
    first, last = cut(text, 500, "x", head=2 / 3).split("\n[… ")
    assert len(first) > 1.9 * len(last.split(" …]\n")[1])


SPELT = "Kq7-stone+Bridge/5512=wT"


@pytest.mark.parametrize(
    "spelling",
    [
        SPELT.encode().hex(),
        SPELT.encode().hex().upper(),
        SPELT.upper(),
        SPELT.lower(),
        SPELT.replace("/", r"\/"),
        SPELT.replace("+", r"\+").replace("=", r"\="),
        "".join(f"\\u{ord(each):04x}" for each in SPELT),
        "Kq7-stone%2bBridge%2f5512%3dwT",
        SPELT.replace("+", "&plus;").replace("/", "&#047;").replace("=", "&#x3d;"),
        SPELT.replace("+", "&#x2B;").replace("=", "&equals;"),
        SPELT.replace("-", "&#45;"),
        *(
            base64.b64encode(bytes(n) + SPELT.encode() + bytes(m)).decode()
            for n in range(4)
            for m in range(3)
        ),
    ],
)
def test_a_known_secret_is_hidden_in_other_spellings(monkeypatch: pytest.MonkeyPatch, spelling: str) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", SPELT)
    shown = redact(f"before {spelling} after")
    assert "[redacted DEPLOY_TOKEN]" in shown and spelling not in shown
    assert shown.startswith("before ") and shown.endswith(" after") and len(shown) < 50


@pytest.mark.parametrize("text", ["a &lt; b; stone &amp; bridge", "Kq7 &#45; 5512;", "&;" * 10])
def test_html_without_a_secret_stays(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", SPELT)
    assert redact(text) == text
