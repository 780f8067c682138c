"""The page of a server that has a token: a browser signs in with it, and what its cookie opens then."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from lanes import within
from page_place import waiting
from page_serving import served

from runtime.api.fractal import Fractal
from runtime.server.signing_in import PAUSE

TOKEN = "a-token-of-the-tests-ü"
BEARER = {b"authorization": f"Bearer {TOKEN}".encode()}
BROWSER = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fractal.yaml").write_text("embedder: lexical\n")
    return tmp_path


@pytest.fixture
def browser(folder: Path) -> Iterator[httpx.Client]:
    with (
        served(folder, token=TOKEN) as base,
        httpx.Client(base_url=base, headers={**BROWSER, "origin": base}, timeout=60) as http,
    ):
        yield http


def sign_in(browser: httpx.Client, path: str = "/") -> httpx.Response:
    return send(browser, path, TOKEN)


def send(browser: httpx.Client, path: str, token: str, **headers: str) -> httpx.Response:
    """Send the form as a browser does."""
    return browser.post(
        path, content=f"token={token}\r\n".encode(), headers={"content-type": "text/plain", **headers}
    )


def test_a_browser_sees_a_form_and_a_client_an_error(browser: httpx.Client) -> None:
    for path in ("/", "/brain", "/runs/nosuch", "/nothing"):
        form = browser.get(path)
        assert form.status_code == 401 and '<input type="password"' in form.text
        assert re.findall("<script[^>]*>", form.text) == ['<script src="/assets/sign_in.js" defer>']
        assert form.headers["referrer-policy"] == "same-origin"
    for path in ("/api/runs", "/brain/health", "/"):
        told = browser.get(path, headers={"accept": "application/json"})
        assert told.status_code == 401 and "FRACTAL_TOKEN" in told.json()["error"]
    assert browser.get("/api/runs", headers=BEARER).status_code == 200
    assert browser.get("/assets/page.css").status_code == 200
    assert browser.get("/assets/%2e%2e/rendering.py").status_code == 404


def test_the_token_opens_the_place_that_was_asked_for(browser: httpx.Client) -> None:
    signed = sign_in(browser, "/brain?past=true")
    assert signed.status_code == 303
    assert signed.url.join(signed.headers["location"]) == browser.base_url.join("/brain?past=true")
    cookie = signed.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower() and "Secure" not in cookie
    assert TOKEN not in cookie and "expires" not in cookie.lower() and "max-age" not in cookie.lower()
    assert "Sign out" in browser.get("/brain").text
    assert browser.get("/api/runs").status_code == 200
    secure = send(browser, "/", TOKEN, **{"x-forwarded-proto": "https"})
    assert "Secure" in secure.headers["set-cookie"]


def test_no_path_leads_to_another_host(browser: httpx.Client) -> None:
    for path in ("//evil.example", "//evil.example/%2fx", "/%5cevil.example", "/x%0d%0aset-cookie:a=b"):
        signed = sign_in(browser, f"{browser.base_url}".rstrip("/") + path)
        assert signed.status_code == 303
        assert signed.url.join(signed.headers["location"]).host == "127.0.0.1"
        assert "a" not in signed.cookies


@pytest.mark.night
def test_a_wrong_token_is_refused_after_a_pause(browser: httpx.Client) -> None:
    with within(60, least=2 * PAUSE):
        refused = send(browser, "/", TOKEN[:-1])
        wrong = browser.get("/api/runs", headers={"authorization": "Bearer x"})
    assert (refused.status_code, "not the token" in refused.text) == (401, True)
    assert wrong.status_code == 401
    assert not browser.cookies
    for body in (b"", b"token=", b"token=\xff", b"x" * 20_000):
        assert browser.post("/", content=body, headers={"content-type": "text/plain"}).status_code == 401
    foreign = send(browser, "/", TOKEN, origin="http://127.0.0.1:1")
    assert foreign.status_code == 403 and not browser.cookies
    for host in ("127.0.0.1:x", "127.0.0.1:99999", "[::1"):
        assert browser.get("/", headers={"host": host, "origin": f"http://{host}"}).status_code == 401


def test_a_session_ends_with_sign_out_and_with_the_server(folder: Path, browser: httpx.Client) -> None:
    sign_in(browser)
    browser.get("/")
    cookies = dict(browser.cookies)
    form = {"form": browser.cookies["fractal-form"]}
    assert browser.post("/sign-out", data=form, headers={"origin": "http://127.0.0.1:1"}).status_code == 403
    assert browser.post("/sign-out").status_code == 403
    assert browser.get("/").status_code == 200
    assert browser.post("/sign-out", data=form).status_code == 303
    assert (
        browser.get(
            "/", headers={"cookie": "; ".join("=".join(each) for each in cookies.items())}
        ).status_code
        == 401
    )
    again = browser.post("/runs/x/approve", data=form)
    assert again.status_code == 401 and "Nothing was changed" in again.text and 'action="/"' in again.text

    sign_in(browser)
    session = next(value for name, value in browser.cookies.items() if "session" in name)
    with served(folder, token=TOKEN) as base:
        port = httpx.URL(base).port
        kept = {"cookie": f"fractal-session-{port}={session}"}
        assert httpx.get(base, headers={**BROWSER, **kept}).status_code == 401


def test_a_cookie_follows_events_and_sends_forms_and_nothing_to_the_api(browser: httpx.Client) -> None:
    sign_in(browser)
    with browser.stream("GET", "/api/events") as stream:
        assert stream.status_code == 200
    for path in ("/api/runs", "/brain/learn", "/api/brain/learn", "/api/benchmarks"):
        sent = browser.post(path, json={"task": "x"})
        assert sent.status_code == 401
    assert browser.post("/facts/forget", data={"words": "x"}).status_code == 403, "no token of a form"
    browser.get("/")
    form = {"form": browser.cookies["fractal-form"], "words": "x"}
    assert browser.post("/facts/forget", data=form).status_code == 400


def test_who_has_signed_in_does_not_count_as_a_client_with_the_token(
    folder: Path, browser: httpx.Client
) -> None:
    """The cookie goes to every port of the host, so a program that a run has started may have it, too."""
    run = waiting(folder)
    sign_in(browser)
    browser.get("/")
    form = {"form": browser.cookies["fractal-form"]}
    approved = browser.post(f"/runs/{run}/approve", data=form)
    assert (approved.status_code, "needs the person at the page" in approved.text) == (403, True)
    assert Fractal(folder).root_document(run).meta.status == "waiting"
    client = httpx.post(f"{browser.base_url}/api/runs/{run}/approve", headers=BEARER)
    assert client.status_code == 200, client.text
