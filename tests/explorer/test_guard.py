"""Only the explorer's own page is answered, and no request path reaches the disk."""

import asyncio

import pytest

from tests.explorer.explorer_tools import PORT, TOKEN, Client
from unweave.explorer.app import PAGE, make_app
from unweave.explorer.guard import HEADERS
from unweave.explorer.model_index import entries_of
from unweave.explorer.opened_models import OpenedModels

CODE = '{"codes": [[0, 0, 0, 0, 0]]}'


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_local_hosts_are_accepted(client, host):
    assert client.get("/", headers={"Host": f"{host}:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "localhost:80",
        f"127.0.0.1.evil.example:{PORT}",
        f"localhost.:{PORT}",
        f"127.0.0.1:{PORT}@evil.example",
        "",
    ],
)
def test_other_hosts_are_rejected(client, host):
    for path in ("/", "/models"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 421
        assert "models" not in answer.json()


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1:1",
        f"https://127.0.0.1:{PORT}",
        "http://localhost",
        "file://",
    ],
)
def test_posts_from_other_origins_are_rejected(client, origin):
    for path in ("decode", "encode", "picture", "names"):
        answer = client.post(f"/models/0/{path}", content=CODE, headers={"Origin": origin})
        assert answer.status_code == 403
    assert client.post("/models/0/decode", content=CODE).status_code == 200


def test_nothing_is_answered_without_the_token(client):
    for cookie in ({}, {"Cookie": f"unweave-explorer-{PORT}=x"}, {"Cookie": f"other={TOKEN}"}):
        stranger = Client(client.app, cookie)
        for path in (*PAGE, "/models", "/models/0", "/models/0/images/3", "/nowhere"):
            answer = stranger.get(path)
            assert answer.status_code == 403, path
            assert "set-cookie" not in answer.headers
            assert TOKEN not in answer.text
        for path in ("decode", "encode", "picture"):
            assert stranger.post(f"/models/0/{path}", content=CODE).status_code == 403
        assert "token" in stranger.get("/models").json()["error"]
        page = stranger.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "terminal" in page.text


@pytest.mark.parametrize("token", ["", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "%ff", "é", "%00"])
def test_a_wrong_token_is_rejected(client, token):
    answer = Client(client.app, {}).get(f"/?token={token}")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_token_is_exchanged_for_a_cookie_at_the_address_only(client):
    stranger = Client(client.app, {})
    for path in ("/models", "/style.css"):
        assert stranger.get(f"{path}?token={TOKEN}").status_code == 403
    assert stranger.post(f"/?token={TOKEN}").status_code == 403
    for _ in range(2):  # another browser of the same person
        answer = stranger.get(f"/?token={TOKEN}")
        assert answer.status_code == 200
        assert 'url=/"' in answer.text
        assert TOKEN not in answer.text
        cookie, *options = answer.headers["set-cookie"].split("; ")
        assert sorted(options) == ["HttpOnly", "Path=/", "SameSite=Strict"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert Client(client.app, {"Cookie": cookie}).get("/models").status_code == 200
    others = {"Cookie": f"a=1; unweave-explorer-1=x; {cookie}; unweave-explorer-{PORT}=tossed"}
    assert Client(client.app, others).get("/models").status_code == 200
    assert stranger.get(f"/?token={TOKEN}", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_can_only_link_to_the_page(client, site):
    there = {"Sec-Fetch-Site": site}
    assert client.get("/models", headers=there).status_code == 403
    assert client.get("/explorer.js", headers=there).status_code == 403
    assert client.post("/models/0/decode", content=CODE, headers=there).status_code == 403
    assert client.get("/", headers=there).status_code == 200
    assert client.get("/models", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_every_response_has_the_security_headers(client):
    wish = {"Access-Control-Request-Method": "POST"}
    answers = [
        client.get("/"),
        client.get("/models"),
        client.get("/nowhere"),
        client.get("/", headers={"Host": "evil.example"}),
        client.post("/models/0/decode", content="nonsense"),
        client.request("OPTIONS", "/models", headers=wish),
    ]
    assert [a.status_code for a in answers] == [200, 200, 404, 421, 422, 405]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers.get_list(name) == [value]
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert HEADERS["Content-Security-Policy"].startswith("default-src 'self';")


@pytest.mark.parametrize(
    "path",
    [
        "../../secrets.txt",
        "..%2f..%2fsecrets.txt",
        "..%2F..%2Fconfig.json",
        "%2e%2e/%2e%2e/secrets.txt",
        "..%5c..%5cwindows",
        "....//secrets.txt",
        "page/index.html",
        "index.html",
        "app.py",
        "style.css%00.png",
        "models/..%2f0",
        "models/0%2f..%2f1",
        "models/0/images/..%2f..%2f1",
        "models/%2e%2e",
        "docs",
        "redoc",
        "openapi.json",
    ],
)
def test_other_paths_are_not_found(client, path):
    answer = client.get(f"/{path}")
    assert answer.status_code == 404
    assert answer.json() == {"error": "not found"}


def test_the_page_refers_to_no_other_host(client):
    for path, (_, kind) in PAGE.items():
        answer = client.get(path)
        assert answer.headers["content-type"] == kind
        text = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text


def test_internal_errors_are_not_sent_to_the_page(runs):
    models = OpenedModels(entries_of(runs))

    def fail(*_):
        raise ZeroDivisionError("secret/path")

    models.decode = fail
    answer = Client(make_app(models, PORT, TOKEN)).post("/models/0/decode", content=CODE)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_web_sockets_are_rejected(client):
    sent = []

    async def send(message):
        sent.append(message)

    headers = [(b"host", f"127.0.0.1:{PORT}".encode())]
    asyncio.run(client.app({"type": "websocket", "path": "/", "headers": headers}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_two_host_headers_are_rejected(client):
    scope = {"type": "http", "method": "GET", "path": "/"}
    once = [(b"host", f"127.0.0.1:{PORT}".encode())]
    assert client.app._refusal({**scope, "headers": once}) is None
    assert client.app._refusal({**scope, "headers": once * 2})[0] == 421
    assert client.app._refusal({**scope, "headers": []})[0] == 421
