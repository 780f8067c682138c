"""Credentials in the forms in which providers, programs and files have them, and texts that look like them.

The values are made here, so that no scanner takes this file for a leak. Each form is a text with the
credential in it, as a task, an argument, a file or an output may have it.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL = ALNUM + "-_"
B64 = ALNUM + "+/"


@dataclass(frozen=True)
class Credential:
    """A text with a credential in it; `value` is the part that nobody may see."""

    name: str
    text: str
    value: str


def _made(name: str, size: int, of: str = ALNUM) -> str:
    """A value that is the same each time, with a digit and letters of both kinds if `of` has them."""
    chance = random.Random(name)
    while True:
        text = "".join(chance.choices(of, k=size))
        kinds = [set(of) & set(kind) for kind in (string.digits, string.ascii_lowercase)]
        if text[0].isalnum() and text[-1].isalnum() and all(not kind or kind & set(text) for kind in kinds):
            return text


def _jwt(name: str) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    return f"{head}.{_made(name, 60, URL)}.{_made(name + '.', 43, URL)}"


def _pem(name: str, kind: str) -> tuple[str, str]:
    lines = "\n".join(_made(f"{name}{n}", 64, B64) for n in range(6))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----", lines.split("\n")[2]


def _basic(name: str) -> str:
    return base64.b64encode(f"bob:{_made(name, 14)}".encode()).decode()


def credentials() -> Iterator[Credential]:
    """Every form; the order is by name, so that a half of them is no choice."""
    found: dict[str, Credential] = {}

    def add(name: str, text: str, size: int = 24, of: str = ALNUM, *, lead: str = "", end: str = "") -> None:
        value = f"{lead}{_made(name, size, of)}{end}"
        found[name] = Credential(name, text.replace("{}", value), value)

    def whole(name: str, text: str, value: str) -> None:
        found[name] = Credential(name, text.replace("{}", value), value)

    add("aws id", "the id {} is of the account", 16, UPPER, lead="AKIA")
    add("aws session id", "{}", 16, UPPER, lead="ASIA")
    add("aws secret", "aws_secret_access_key = {}", 40, B64)
    add("aws secret camel", '{"SecretAccessKey": "{}"}', 40, B64)
    add("aws session token", "AWS_SESSION_TOKEN={}", 120, B64, end="==")
    add("aws bedrock", "use {} here", 120, B64, lead="ABSK")
    gcp, part = _pem("gcp", "PRIVATE KEY")
    found["gcp json"] = Credential(
        "gcp json", json.dumps({"type": "service_account", "private_key": gcp}), part
    )
    add("google api", "https://maps.example.org/api?q=a&key={}", 35, URL, lead="AIza")
    add("google oauth", "{}", 60, URL, lead="ya29.")
    add("google client", "it is {}", 28, URL, lead="GOCSPX-")
    add("google refresh", "refresh {} it", 60, URL, lead="1//0g")
    add("azure storage", "AccountName=shop;AccountKey={};EndpointSuffix=core.example.org", 86, B64, end="==")
    add("azure sas", "https://shop.example.org/c?sv=2022-11-02&sp=r&sig={}", 43, ALNUM, end="%3D")
    add("azure client", "the client secret is {}", 31, URL + "~", lead="abC8Q~")
    add("azure devops", "AZURE_DEVOPS_EXT_PAT={}", 52, string.ascii_lowercase + "234567")
    add("github classic", "git push with {} works", 36, lead="ghp_")
    add("github oauth", "{}", 36, lead="gho_")
    add("github app", "x-access-token {} y", 36, lead="ghs_")
    add("github fine", "{}", 82, ALNUM + "_", lead="github_pat_")
    add("gitlab", "the token {}", 20, URL, lead="glpat-")
    add("gitlab runner", "{}", 20, URL, lead="glrt-")
    add("gitlab trigger", "use {}", 40, HEX, lead="glptt-")
    add("bitbucket", "clone with {}", 60, URL, lead="ATBB")
    add("slack bot", "{}", 24, lead="xoxb-123456789012-1234567890123-")
    add("slack user", "{}", 32, HEX, lead="xoxp-123456789012-123456789012-123456789012-")
    add("slack app", "it is {}", 64, HEX, lead="xapp-1-A01ABCDEF01-1234567890123-")
    add("slack hook", "post to https://hooks.slack.com/services/T01ABCDEF/B01ABCDEF/{}", 24)
    add("teams hook", "https://shop.webhook.office.com/webhookb2/{}", 32, HEX, end="@a/IncomingWebhook/b")
    add("discord hook", "https://discord.com/api/webhooks/123456789012345678/{}", 68, URL)
    whole("discord bot", "run with {}", f"MTIz{_made('d1', 20)}.Gx{_made('d2', 4)}.{_made('d3', 38, URL)}")
    add("telegram", "bot 123456789:{}", 33, URL, lead="AA")
    add("stripe live", "{}", 24, lead="sk_live_")
    add("stripe restricted", "charge with {}", 24, lead="rk_live_")
    add("stripe hook", "{}", 32, lead="whsec_")
    add("twilio token", "TWILIO_AUTH_TOKEN={}", 32, HEX)
    add("twilio key", "twilio api key {}", 32, HEX, lead="SK")
    whole("sendgrid", "mail by {}", f"SG.{_made('s1', 22, URL)}.{_made('s2', 43, URL)}")
    whole("mailgun", "{}", f"key-{_made('m1', 32, HEX)}")
    whole("mailchimp", "list {} x", f"{_made('m2', 32, HEX)}-us12")
    add("npm", "//registry.example.org/:_authToken={}", 36, lead="npm_")
    add("npm legacy", "//registry.example.org/:_authToken={}", 36, HEX)
    add("pypi", "twine upload -u __token__ -p {}", 80, URL, lead="pypi-AgEIcHlwaS5vcmc")
    add("rubygems", "push {}", 48, HEX, lead="rubygems_")
    add("nuget", "push with {}", 43, string.ascii_lowercase + string.digits, lead="oy2")
    add("crates", "login {}", 32, lead="cio")
    add("hugging face", "{}", 34, string.ascii_letters, lead="hf_")
    add("openai project", "the key is {}", 120, URL, lead="sk-proj-")
    add("openai old", "{}", 48, lead="sk-")
    add("anthropic", "{}", 95, URL, lead="sk-ant-api03-")
    add("groq", "{}", 52, lead="gsk_")
    add("xai", "{}", 80, lead="xai-")
    add("perplexity", "use {}", 48, lead="pplx-")
    add("replicate", "{}", 37, lead="r8_")
    add("openrouter", "{}", 64, HEX, lead="sk-or-v1-")
    add("cohere", "COHERE_API_KEY={}", 40)
    add("mistral", "Authorization: Bearer {}", 32)
    add("langsmith", "trace to {}", 32, HEX, lead="lsv2_pt_", end="_0123456789")
    add("heroku", "HEROKU_API_KEY={}", 40, URL, lead="HRKU-")
    add("heroku uuid", "HEROKU_API_KEY=01234567-89ab-cdef-0123-{}", 12, HEX)
    add("digitalocean", "{}", 64, HEX, lead="dop_v1_")
    add("digitalocean refresh", "{}", 64, HEX, lead="dor_v1_")
    add("shopify", "{}", 32, HEX, lead="shpat_")
    add("square", "pay {}", 60, URL, lead="EAAAE")
    add("square secret", "pay {}", 43, URL, lead="sq0csp-")
    add("paypal", "access_token${}", 32, HEX, lead="production$0123456789abcdef$")
    add("datadog", "DD_API_KEY={}", 32, HEX)
    add("new relic", "report {}", 27, UPPER, lead="NRAK-")
    add("new relic licence", "report {}", 36, HEX, end="NRAL")
    add("grafana", "{}", 32, lead="glsa_", end="_0a1b2c3d")
    add("grafana cloud", "{}", 100, B64, lead="glc_eyJ")
    add("sentry", "{}", 100, B64, lead="sntrys_eyJ")
    add("sentry user", "{}", 64, HEX, lead="sntryu_")
    add("linear", "{}", 40, lead="lin_api_")
    add("notion", "{}", 43, lead="secret_")
    add("notion new", "{}", 46, lead="ntn_")
    add("figma", "{}", 40, URL, lead="figd_")
    add("airtable", "base {}", 64, HEX, lead="patAbCdEfGhIjKlMn.")
    add("asana", "ASANA_TOKEN=1/1234567890123456:{}", 32, HEX)
    add("atlassian", "{}", 180, URL, lead="ATATT3xFfGF0")
    add("confluent", "CONFLUENT_SECRET={}", 64, B64)
    add("databricks", "dbc {}", 32, HEX, lead="dapi")
    add("snowflake", "snowsql password={}", 16)
    add("planetscale", "{}", 43, URL, lead="pscale_pw_")
    add("supabase", "{}", 40, HEX, lead="sbp_")
    add("neon", "{}", 64, lead="napi_")
    add("vercel", "VERCEL_TOKEN={}", 24)
    add("netlify", "deploy {}", 36, lead="nfp_")
    add("cloudflare key", "X-Auth-Key: {}", 37, HEX)
    add("cloudflare origin", "{}", 146, HEX, lead="v1.0-0a1b2c3d4e5f-")
    add("fastly", "Fastly-Key: {}", 32, URL)
    add("flyio", "{}", 90, B64, lead="fm2_")
    add("doppler", "{}", 43, lead="dp.pt.")
    add("1password", "{}", 250, B64, lead="ops_eyJ")
    add("vault", "{}", 90, URL, lead="hvs.")
    add("vault batch", "{}", 138, URL, lead="hvb.")
    add("terraform cloud", "{}", 67, URL, lead="aBcD1234eFgH56.atlasv1.")
    add("terraform rc", 'credentials "app.example.org" { token = "{}" }', 40)
    add("pulumi", "{}", 40, HEX, lead="pul-")
    add("docker hub", "{}", 27, URL, lead="dckr_pat_")
    whole("docker config", '{"auths": {"r.example.org": {"auth": "{}"}}}', _basic("docker"))
    add("kube token", "users:\n- name: me\n  user:\n    token: {}", 40)
    add("kube key", "    client-key-data: {}", 120, B64, end="==")
    whole("kubernetes", "{}", _jwt("kubernetes"))
    whole("jwt", "session {} ended", _jwt("jwt"))
    add("k8s secret", "kind: Secret\ndata:\n  password: {}", 24, B64)
    for kind in ("RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        text, part = _pem(kind, kind)
        found[kind.lower()] = Credential(kind.lower(), text, part)
    text, part = _pem("pgp", "PGP PRIVATE KEY BLOCK")
    found["pgp"] = Credential("pgp", text, part)
    putty = "\n".join(_made(f"putty{n}", 64, B64) for n in range(3))
    found["putty"] = Credential(
        "putty",
        f"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 3\n{putty}\nPrivate-MAC: 00",
        putty.split("\n")[1],
    )
    add("wireguard", "[Interface]\nPrivateKey = {}", 43, B64, end="=")
    add("wireguard shared", "[Peer]\nPresharedKey = {}", 43, B64, end="=")
    add("age", "{}", 58, UPPER, lead="AGE-SECRET-KEY-1")
    add("ssh pass", "sshpass -p '{}' ssh bob@host", 12)
    add("wpa", 'network={ ssid="home" psk="{}" }', 14)
    add("postgres", "postgres://app:{}@db.example.org:5432/shop", 16)
    add("mongodb", "mongodb+srv://app:{}@cluster.example.org/shop", 16)
    add("redis", "redis://:{}@cache.example.org:6379/0", 20)
    add("amqp", "amqps://svc:{}@queue.example.org", 16)
    add("smtp", "smtp://mailer:{}@mail.example.org:587", 16)
    add("jdbc", "jdbc:mysql://db.example.org/shop?user=app&password={}", 16)
    add("ado", "Server=db;Database=shop;User Id=app;Password={};Encrypt=true", 16)
    add("odbc", "Driver={PG};Server=db;Uid=app;Pwd={};", 16)
    add(
        "service bus",
        "Endpoint=sb://a.example.org/;SharedAccessKeyName=r;SharedAccessKey={}",
        43,
        B64,
        end="=",
    )
    add("git remote", "https://bob:{}@git.example.org/a/b.git", 20)
    whole("basic", "Authorization: Basic {}", _basic("basic"))
    add("bearer", "curl -H 'Authorization: Bearer {}' https://example.org", 40)
    add("api key header", "x-api-key: {}", 32)
    add("private token header", "PRIVATE-TOKEN: {}", 20)
    add("netrc", "machine git.example.org login bob password {}", 14)
    add("pgpass", "db.example.org:5432:shop:app:{}", 14)
    add("htpasswd", "bob:$apr1$abcdefgh${}", 22, ALNUM + "./")
    add("shadow", "root:$6$abcdefgh${}:19000:0:99999:7:::", 86, ALNUM + "./")
    add("bcrypt", "bob:$2y$10${}", 53, ALNUM + "./")
    add("htpasswd command", "htpasswd -b users.txt bob {}", 12)
    add("session cookie", "Cookie: sessionid={}; theme=dark", 32)
    add("set cookie", "Set-Cookie: SID={}; HttpOnly; Secure", 32)
    add("php session", "Cookie: PHPSESSID={}", 26, string.ascii_lowercase + string.digits)
    add("django", "SECRET_KEY = 'django-insecure-{}'", 50, ALNUM + "#$%^&*(-_=+)")
    add("rails", "secret_key_base: {}", 128, HEX)
    add("laravel", "APP_KEY=base64:{}", 43, B64, end="=")
    add("env password", "DB_PASSWORD={}", 12)
    add("yaml password", "  password: {}", 12)
    add("ini password", "[client]\nuser = app\npassword = {}", 12)
    add("xml password", "<password>{}</password>", 12)
    add("json password", '{"user": "bob", "password": "{}"}', 12)
    add("toml token", 'api_token = "{}"', 32)
    add("properties", "spring.datasource.password={}", 14)
    add("python call", 'connect(host="db", password="{}")', 14)
    add("maven", "<server><username>bob</username><password>{}</password></server>", 14)
    add("mysql option", "mysql -u root -p{} shop", 12)
    add("curl user", "curl -u bob:{} https://example.org", 14)
    add("docker login", "docker login -u bob -p {} r.example.org", 16)
    add("redis cli", "redis-cli -a {} ping", 16)
    add("psql env", "PGPASSWORD={} psql -h db", 14)
    add("otp", "otpauth://totp/shop:bob?secret={}&issuer=shop", 32, string.ascii_uppercase + "234567")
    add("query token", "https://example.org/feed?access_token={}&page=2", 32)
    add("signed url", "https://b.example.org/k?X-Amz-Expires=900&X-Amz-Signature={}", 64, HEX)
    add("said password", "the password is {}", 14)
    add("option", "tool --api-key {} --verbose", 32)
    add("facebook", "post {}", 120, lead="EAACEdEose0cBA")
    add("dropbox", "{}", 130, URL, lead="sl.B")
    add("okta", "SSWS {}", 40, URL, lead="00")
    add("artifactory", "{}", 69, lead="AKCp")
    add("postman", "{}", 34, HEX, lead="PMAK-0123456789abcdef01234567-")
    add("hubspot", "{}", 36, HEX, lead="pat-na1-")
    add("zapier hook", "https://hooks.zapier.com/hooks/catch/1234567/{}", 7)
    add("pagerduty", "Authorization: Token token={}", 20)
    add("elastic", "Authorization: ApiKey {}", 60, B64)
    add("plaid", "access-production-{}", 32, HEX)
    add("easypost", "{}", 54, lead="EZAK")
    add("typeform", "{}", 44, URL, lead="tfp_")
    add("scaleway", "SCW_SECRET_KEY=01234567-89ab-cdef-0123-{}", 12, HEX)
    add("alibaba", "{}", 20, lead="LTAI")
    add("tencent", "{}", 32, lead="AKID")
    add("yandex", "{}", 35, URL, lead="AQVN")
    yield from sorted(found.values(), key=lambda each: each.name)


TUNED, UNREAD = (tuple(credentials())[start::2] for start in (0, 1))
"""The half whose misses were looked at while the forms were written, and the other half."""

HARMLESS = (
    *(f"commit {_made(f'commit{n}', size, HEX)} of main" for n, size in enumerate((7, 10, 40, 64))),
    f"image: r.example.org/app@sha256:{_made('image', 64, HEX)}",
    f"{_made('sum', 64, HEX)}  dist/app-1.2.3.tar.gz",
    f"md5: {_made('md5', 32, HEX)}",
    f"integrity: sha512-{_made('npm', 86, B64)}==",
    f'<script src="/main.js" integrity="sha384-{_made("sri", 64, B64)}"></script>',
    f"--hash=sha256:{_made('pip', 64, HEX)}",
    f'etag: "{_made("etag", 32, HEX)}"',
    f"cache-key: v1-deps-{_made('cache', 40, HEX)}",
    f"key-{_made('ci', 40, HEX)}",
    f"run {_made('run', 32, HEX)} ended with code 0",
    f"request_id={_made('request', 32, HEX)}",
    "trace 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "550e8400-e29b-41d4-a716-446655440000 is the id of the order",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "507f1f77bcf86cd799439011 is an object of the base",
    f"data:image/png;base64,iVBORw0KGgo{_made('png', 200, B64)}",
    f"![logo](data:image/gif;base64,R0lGODlh{_made('gif', 80, B64)})",
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_made('pub', 43, B64)} bob@host",
    f"-----BEGIN CERTIFICATE-----\n{_made('cert', 64, B64)}\n-----END CERTIFICATE-----",
    f"-----BEGIN PUBLIC KEY-----\n{_made('public', 64, B64)}\n-----END PUBLIC KEY-----",
    f"age1{_made('agepub', 58, string.ascii_lowercase + string.digits)}",
    f"SHA256:{_made('finger', 43, B64)} is the fingerprint of the host",
    f"/nix/store/{_made('nix', 32, string.ascii_lowercase + string.digits)}-hello-2.12/bin/hello",
    f"https://video.example.org/watch?v={_made('video', 11, URL)}&list=PL{_made('list', 32, HEX)}",
    "https://docs.example.org/d/how-to-write-a-very-long-address-with-many-words-2024/edit",
    "test_ThatTheLongNameOfThisTest1IsNoCredentialAtAll2",
    "my_very_long_variable_name_that_somebody_has_written_in_2024_for_a_test",
    "com.example.shop.ServiceLoaderFactoryBeanAutoConfiguration2ProxyImpl",
    "src/components/forms/PasswordResetFormContainer.test.tsx",
    "aVeryLongCamelCaseIdentifierWithout_AnyDigitsInItWhatsoever",
    "sort_key = lambda row: row.name",
    "sort_key=created_at",
    "primary_key: [tenant_id, order_id]",
    "foreign_key=users.id",
    "keyboard=us keys=3 monkey=george turkey=yes",
    "the tokenizer has 32000 tokens and a token limit of 8192",
    "password_reset_url=/account/reset",
    "passwordless: true",
    "authors: [Jane Doe, Bob]",
    "csrf_token = request.cookies.get('csrf')",
    "secret_name: shop-db-credentials",
    "secretKeyRef:\n  name: shop\n  key: password",
    "kubectl get secret shop -o yaml",
    "aws secretsmanager get-secret-value --secret-id shop/db",
    "DB_PASSWORD=${DB_PASSWORD:?}",
    "password: ${{ secrets.DB_PASSWORD }}",
    "token: !vault shop/token",
    "postgres://app@db.example.org:5432/shop",
    "postgres://app:$PASSWORD@db.example.org/shop",
    "redis://cache.example.org:6379/0",
    "price: $1,500 and $2 of $3",
    "awk '{print $1$2}' | sed 's/$1/$6/'",
    "lat=52.520008, lon=13.404954",
    "mac 00:1a:2b:3c:4d:5e, ip 192.168.10.21:8080",
    "const ROUTES = ['/login', '/password', '/token']",
    "the pass at 2,400 m is closed; bypass: A13",
    "sketch-2024-final-version-with-many-changes-by-bob.sketch",
    "sk-learn and sk-image are libraries",
    "xoxo-with-love-from-bob",
    "AKIAN is a name, ASIA is a continent",
    "pk = models.AutoField(primary_key=True)",
    "hvac.unit-one-of-the-second-floor-in-building-4",
    "glove-twitter-27B-200d-embeddings-of-words",
    "npm_config_registry=https://registry.example.org/npm",
    "session ended after 32 minutes; cookies are off",
    "<input name=token type=hidden>",
    "UUID=0a1b2c3d-0000-4000-8000-0123456789ab /home ext4 defaults 0 2",
    "v1.0-rc1-beta-release-candidate-of-october",
    "sha512-256 and sha3-512 are digests",
    "Zm9vYmFy is base64 of foobar",
)
"""Texts that stay as they are."""
