"""Addresses of servers, as people write them."""

from __future__ import annotations

import pytest

from runtime.addresses import is_here, is_loopback, normal, shown


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("localhost:8000/v1", "http://localhost:8000/v1"),
        ("localhost", "http://localhost"),
        ("[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("::1", "http://[::1]"),
        ("0.0.0.0:8000", "http://0.0.0.0:8000"),
        ("//127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("10.1.2.3:8000/v1", "http://10.1.2.3:8000/v1"),
        ("192.168.1.20/v1", "http://192.168.1.20/v1"),
        ("[fd00::1]:8000", "http://[fd00::1]:8000"),
        ("gpu-box:8000/v1", "http://gpu-box:8000/v1"),
        ("host.docker.internal:11434", "http://host.docker.internal:11434"),
        ("models.local/v1", "http://models.local/v1"),
        ("models.example.org/v1", "https://models.example.org/v1"),
        ("api.example.org:8443", "https://api.example.org:8443"),
        ("8.8.8.8/v1", "https://8.8.8.8/v1"),
        (" http://127.0.0.1:8000/v1 \r\n", "http://127.0.0.1:8000/v1"),
        ('"http://127.0.0.1:8000/v1"', "http://127.0.0.1:8000/v1"),
        ("'127.0.0.1:8000/v1'", "http://127.0.0.1:8000/v1"),
        ("\ufeffhttp://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("HTTP://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1//#top", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/a%20b/v1", "http://127.0.0.1:8000/a%20b/v1"),
        ("https://h.example.org/d/?api-version=2025-04-01", "https://h.example.org/d?api-version=2025-04-01"),
        ("http://user:pw@127.0.0.1:8000/v1", "http://user:pw@127.0.0.1:8000/v1"),
    ],
)
def test_an_address_is_read_as_it_is_meant(written: str, meant: str) -> None:
    assert normal(written) == meant
    assert normal(meant) == meant


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "empty"),
        ('""', "empty"),
        ("ftp://example.org", "not with ftp://"),
        ("htp://127.0.0.1:8000", "not with htp://"),
        ("ws://127.0.0.1:8000", "not with ws://"),
        ("unix:/run/model.sock", "begins with http:// or https://"),
        ("http:/127.0.0.1:8000", "begins with http:// or https://"),
        ("http:127.0.0.1:8000", "begins with http:// or https://"),
        ("https//example.org", "begins with http:// or https://"),
        ("http", "begins with http:// or https://"),
        ("http://", "names no host"),
        ("http://:8000/v1", "names no host"),
        (":8000/v1", "names no host"),
        ("http://127.0.0.1:port/v1", "port is a number"),
        ("http://127.0.0.1:800000/v1", "port is a number"),
        ("http://[::1/v1", "brackets"),
        ("http://127.0.0.1:8000/v1 # mine", "no blank"),
        ("http://127.0.0.1:8000\\v1", "backslash"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_with_the_reason(written: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        normal(written)


def test_what_is_shown_of_an_address_has_no_password_and_no_query() -> None:
    assert shown("http://me:hidden@h.example.org:81/v1?key=hidden") == "http://h.example.org:81/v1"
    assert shown("http://[::1]:81/v1") == "http://[::1]:81/v1"


@pytest.mark.parametrize(
    ("address", "loopback", "here"),
    [
        ("http://127.0.0.1:1", True, True),
        ("http://127.8.9.1", True, True),
        ("http://localhost/v1", True, True),
        ("http://[::1]:1", True, True),
        ("http://[::ffff:127.0.0.1]:1", True, True),
        ("http://0.0.0.0:1", False, True),
        ("http://10.0.0.1", False, False),
        ("http://localhost.example.org", False, False),
        ("", False, False),
    ],
)
def test_which_addresses_are_on_this_machine(address: str, loopback: bool, here: bool) -> None:
    assert (is_loopback(address), is_here(address)) == (loopback, here)
