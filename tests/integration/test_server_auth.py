"""Who calls: nobody in particular, the subject of a token, or whom a backend names."""

import logging
from datetime import datetime, tzinfo
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from graphs import chain
from serving import echo, serving

from tenxgraph.server import JWTAuth, User, create_app
from tenxgraph.storage.checkpointer import InMemoryCheckpointer

SECRET = "a secret of more than thirty-two bytes"
SOON = 4_102_444_800
"""In the year 2100: a session may begin this test hours after it has read this line."""


def bearer(claims: dict[str, Any], key: Any = SECRET, algorithm: str = "HS256") -> dict[str, str]:
    return {"authorization": f"Bearer {jwt.encode(claims, key, algorithm)}"}


async def owner(client: Any, headers: dict[str, str], checkpointer: Any) -> str | None:
    """Whose the thread is that a request makes."""
    body = {"messages": "hi", "config": {"thread_id": "t"}}
    answer = await client.post("/v1/graph/invoke", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    info = await checkpointer.aget_thread({"user_id": "", "authz": _all(), "thread_id": "t"})
    return info.user_id if info else None


def _all() -> dict[str, str]:
    return {"user_id": "auditor", "scope": "none"}


async def test_without_authentication_everybody_is_anonymous() -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    async with serving(chain(echo, checkpointer=checkpointer)) as client:
        assert await owner(client, {"x-user": "alice"}, checkpointer) == "anonymous"


async def test_a_tokens_subject_is_the_user(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tenxgraph.server")
    monkeypatch.setenv("JWT_SECRET_KEY", SECRET)
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    async with serving(chain(echo, checkpointer=checkpointer), auth="jwt") as client:
        token = bearer({"sub": "alice", "exp": SOON})
        assert await owner(client, token, checkpointer) == "alice"
        unsigned = jwt.encode({"sub": "alice", "exp": SOON}, "", "none")
        for refused in (
            {},
            {"authorization": ""},
            {"authorization": "Bearer"},
            {"authorization": "Bearer x.y.z"},
            {"authorization": f"Basic {token['authorization'][7:]}"},
            {"authorization": f"Bearer {unsigned}"},
            bearer({"sub": "alice", "exp": SOON}, "another secret of at least 32 bytes"),
            bearer({"sub": "alice", "exp": 946_684_800}),
            bearer({"sub": "alice"}),
            bearer({"exp": SOON}),
            bearer({"sub": "", "exp": SOON}),
            bearer({"sub": "x" * 256, "exp": SOON}),
            bearer({"sub": "alice", "exp": SOON}, SECRET * 2, "HS512"),
        ):
            answer = await client.get("/v1/threads/t", headers=refused)
            assert answer.status_code == 401, refused
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["code"] == "unauthorized"
        assert "ExpiredSignatureError" in caplog.text, "the reason is for the log"
        assert (await client.get("/ping")).status_code == 200
        assert (await client.get("/health/ready")).status_code == 200


async def test_audience_and_issuer_are_checked_where_they_are_named() -> None:
    auth = JWTAuth(SECRET, audience="chat", issuer="https://login.example")
    async with serving(chain(echo), auth=auth) as client:
        good = {"sub": "a", "exp": SOON, "aud": "chat", "iss": "https://login.example"}
        for claims, status in (
            (good, 200),
            ({**good, "aud": ["chat", "mail"]}, 200),
            ({**good, "aud": "mail"}, 401),
            ({**good, "iss": "https://evil.example"}, 401),
            ({k: v for k, v in good.items() if k != "aud"}, 401),
        ):
            answer = await client.get("/v1/threads", headers=bearer(claims))
            assert answer.status_code == status, claims


NOW = SOON - 1000


class Clock(datetime):
    """Stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(NOW, tz)


@pytest.mark.parametrize(("leeway", "status"), [(None, 200), ("0", 401), ("3", 401), ("300", 200)])
async def test_clocks_may_differ_by_the_leeway(
    leeway: str | None, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jwt.api_jwt.datetime", Clock)
    monkeypatch.setenv("JWT_SECRET_KEY", SECRET)
    if leeway is not None:
        monkeypatch.setenv("JWT_LEEWAY", leeway)
    async with serving(chain(echo), auth="jwt") as client:
        for claims in (
            {"sub": "a", "exp": SOON, "nbf": NOW + 4, "iat": NOW + 4},  # by a clock that is ahead
            {"sub": "a", "exp": NOW - 4},
        ):
            answer = await client.get("/v1/threads", headers=bearer(claims))
            assert answer.status_code == status
        expired = bearer({"sub": "a", "exp": NOW - 301})
        assert (await client.get("/v1/threads", headers=expired)).status_code == 401


@pytest.mark.parametrize("leeway", ["-1", "301", "nan", "inf", "soon"])
def test_a_leeway_that_makes_no_sense_is_refused(
    leeway: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JWT_SECRET_KEY", SECRET)
    monkeypatch.setenv("JWT_LEEWAY", leeway)
    with pytest.raises(ValueError, match="JWT_LEEWAY"):
        JWTAuth.from_environment()


async def test_a_public_key_verifies_and_is_no_secret_to_sign_with() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    auth = JWTAuth(public.decode(), algorithms=("RS256",))
    async with serving(chain(echo), auth=auth) as client:
        claims = {"sub": "alice", "exp": SOON}
        good = await client.get("/v1/threads", headers=bearer(claims, private, "RS256"))
        assert good.status_code == 200
        forged = await client.get("/v1/threads", headers=bearer(claims))
        assert forged.status_code == 401


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "JWT_SECRET_KEY"),
        ({"key": SECRET, "jwks_url": "https://x"}, "JWT_SECRET_KEY"),
        ({"jwks_url": "https://x"}, "JWT_ALGORITHM"),
        ({"key": "shh"}, "has 3 bytes; HS256 needs 32"),
        ({"key": SECRET, "algorithms": ("none",)}, "JWT_ALGORITHM"),
        ({"key": SECRET, "algorithms": ("hs256",)}, "JWT_ALGORITHM"),
        ({"key": SECRET, "algorithms": ("RS256",)}, "no key for RS256"),
    ],
)
def test_a_token_that_could_not_be_checked_is_refused_at_the_start(
    options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        JWTAuth(**options)


async def test_what_is_known_of_the_user_reaches_the_nodes() -> None:
    seen: list[Any] = []

    def node(config: Any) -> str:
        seen.append(config["authz"])
        return "ok"

    async with serving(chain(node), auth=lambda _request: User("a", {"plan": "pro"})) as client:
        await client.post("/v1/graph/invoke", json={"messages": "hi"})
    assert seen == [{"user_id": "a", "scope": "owner", "claims": {"plan": "pro"}}]


async def _async_backend(request: Any) -> User | None:
    name = request.headers.get("x-key")
    return User(name, {"plan": "pro"}) if name else None


class _Backend:
    def __call__(self, request: Any) -> str | None:
        return request.headers.get("x-key")  # type: ignore[no-any-return]


@pytest.mark.parametrize("backend", [_async_backend, _Backend, _Backend()])
async def test_a_backend_of_ones_own_says_who_it_is(backend: Any) -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    async with serving(chain(echo, checkpointer=checkpointer), auth=backend) as client:
        assert await owner(client, {"x-key": "alice"}, checkpointer) == "alice"
        assert (await client.get("/v1/threads")).status_code == 401


@pytest.mark.parametrize("said", [{"user": "alice"}, User(5), "x" * 256, ValueError("s3cret")])  # type: ignore[arg-type]
async def test_a_backend_that_says_nonsense_lets_nobody_in(
    said: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def backend(_request: Any) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    origin = "https://chat.example"
    async with serving(chain(echo), auth=backend, cors=[origin]) as client:
        answer = await client.get("/v1/threads", headers={"origin": origin})
        assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
        assert "s3cret" not in answer.text
        assert answer.headers["access-control-allow-origin"] == origin
        assert answer.json()["error_id"] in caplog.text


async def test_published_keys_that_are_out_of_reach_are_no_fault_of_the_callers() -> None:
    auth = JWTAuth(jwks_url="http://127.0.0.1:9/keys", algorithms=("RS256",))
    async with serving(chain(echo), auth=auth) as client:
        answer = await client.get("/v1/threads", headers=bearer({"sub": "a", "exp": SOON}))
        assert (answer.status_code, answer.json()["code"]) == (503, "auth_unavailable")


async def test_a_stranger_is_not_listened_to() -> None:
    async with serving(chain(echo), auth=lambda _request: None) as client:
        for body in (b"{no", b'{"messages": 3}'):
            answer = await client.post("/v1/graph/invoke", content=body)
            assert answer.status_code == 401


def test_what_cannot_be_called_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="cannot be called"):
        create_app(chain(echo), auth=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="module:attribute"):
        create_app(chain(echo), auth="basic")
    with pytest.raises(ValueError, match="there is no module 'nowhere'"):
        create_app(chain(echo), authorization="nowhere:rule")


async def test_pages_of_named_origins_may_call() -> None:
    async with serving(chain(echo), cors=["https://chat.example"]) as client:
        asked = {"origin": "https://chat.example", "access-control-request-method": "POST"}
        answer = await client.options("/v1/graph/invoke", headers=asked)
        assert answer.headers["access-control-allow-origin"] == "https://chat.example"
        other = await client.get("/ping", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
