"""Auth: who calls. A backend looks at the request, and says which user it is of."""

import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from tenxgraph.server.references import lookup
from tenxgraph.server.settings import SettingsError

__all__ = [
    "AuthBackend",
    "AuthUnavailableError",
    "JWTAuth",
    "User",
    "anonymous",
    "auth_backend",
    "call",
    "identified",
]

logger = logging.getLogger("tenxgraph.server")

_LONGEST_ID = 255
# A token that is good for longer after its end makes that end meaningless.
_MOST_LEEWAY = 300


class AuthUnavailableError(Exception):
    """Whoever could say who calls is away; the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class User:
    """Who calls.

    Attributes:
        user_id: whose the threads and memories are: text of 1 to 255 characters.
        claims: what else the backend knows, for an authorization of your own.
    """

    user_id: str
    claims: Mapping[str, Any] = field(default_factory=dict)


class AuthBackend(Protocol):
    """Says who sent a request: a function, or an object with `__call__`; sync or async.

    A sync one may block: it is called in a thread.
    """

    def __call__(
        self, request: HTTPConnection, /
    ) -> User | str | Awaitable[User | str | None] | None:
        """The user, or the user's id; `None`, which is answered with 401, if nobody is known.

        Raises:
            AuthUnavailableError: it cannot be found out now; answered with 503.
        """


async def anonymous(_request: HTTPConnection) -> User:
    """Everybody is the same."""
    return User("anonymous")


class JWTAuth:
    """Takes the user from a bearer token: its `sub` claim, once the signature has been checked.

    Args:
        key: the secret of an HMAC algorithm, or the public key (PEM) of another one.
        jwks_url: where the public keys are published, instead of a `key`.
        algorithms: those that are accepted.
        audience: what the `aud` claim must be, or hold.
        issuer: what the `iss` claim must be.
        leeway: seconds that the clock of whoever issued the token may differ from this one.

    Raises:
        SettingsError: there is neither a key nor a place where keys are, or there are both; or the
            key does not fit the algorithms.
        ImportError: PyJWT is not installed.
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        jwks_url: str | None = None,
        algorithms: tuple[str, ...] = ("HS256",),
        audience: str | None = None,
        issuer: str | None = None,
        leeway: float = 5.0,
    ) -> None:
        try:
            import jwt
        except ImportError as error:
            message = 'JWT authentication needs PyJWT: pip install "tenxgraph[server]".'
            raise ImportError(message) from error
        self._jwt = jwt
        self._key = key
        self._algorithms = list(algorithms)
        self._audience = audience
        self._issuer = issuer
        if not 0 <= leeway <= _MOST_LEEWAY:
            message = f"JWT_LEEWAY must be from 0 to {_MOST_LEEWAY} seconds, not {leeway:g}."
            raise SettingsError(message)
        self._leeway = leeway
        self._check(key, jwks_url)
        self._keys = None if jwks_url is None else jwt.PyJWKClient(jwks_url)

    @classmethod
    def from_environment(cls) -> "JWTAuth":
        """Read the variables of the environment that begin with `JWT_`."""
        told = os.environ.get
        return cls(
            told("JWT_SECRET_KEY") or None,
            jwks_url=told("JWT_JWKS_URL") or None,
            algorithms=tuple((told("JWT_ALGORITHM") or "HS256").replace(" ", "").split(",")),
            audience=told("JWT_AUDIENCE") or None,
            issuer=told("JWT_ISSUER") or None,
            leeway=_seconds(told("JWT_LEEWAY") or "5"),
        )

    def __call__(self, request: HTTPConnection) -> User | None:
        """The user that the token names; `None` if there is no valid one."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        try:
            claims = self._jwt.decode(
                token.strip(),
                self._key or self._published_key(token.strip()),
                algorithms=self._algorithms,
                options={"require": ["exp", "sub"], "verify_aud": self._audience is not None},
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
            )
        except self._jwt.PyJWKClientConnectionError as error:
            raise AuthUnavailableError(f"The published keys are out of reach: {error}") from error
        except self._jwt.PyJWTError as error:
            logger.info("A token was refused: %s: %s", type(error).__name__, error)
            return None
        return User(claims["sub"], claims) if _is_user_id(claims["sub"]) else None

    def _published_key(self, token: str) -> Any:
        assert self._keys is not None
        return self._keys.get_signing_key_from_jwt(token).key

    def _check(self, key: str | None, jwks_url: str | None) -> None:
        if (key is None) == (jwks_url is None):
            raise SettingsError(
                "JWT authentication needs a key or a JWKS address: set JWT_SECRET_KEY, or "
                "JWT_JWKS_URL with JWT_ALGORITHM."
            )
        known = self._jwt.algorithms.get_default_algorithms()
        for name in self._algorithms:
            if name not in known or name == "none":
                raise SettingsError(f"JWT_ALGORITHM: {name!r} is none that signs.")
            if key is None and name.startswith("HS"):
                # A public key that was taken for a secret would let everybody sign.
                raise SettingsError("Published keys need JWT_ALGORITHM, such as RS256, no HMAC.")
            if key is not None:
                self._check_key(known[name], name, key)

    def _check_key(self, algorithm: Any, name: str, key: str) -> None:
        least = int(name[2:]) // 8 if name.startswith("HS") else 0
        if len(key.encode()) < least:
            message = f"JWT_SECRET_KEY has {len(key.encode())} bytes; {name} needs {least}."
            raise SettingsError(message)
        try:
            algorithm.prepare_key(key)
        except (self._jwt.PyJWTError, ValueError, TypeError) as error:
            message = f"JWT_SECRET_KEY is no key for {name}: {type(error).__name__}."
            raise SettingsError(message) from error


def auth_backend(named: str | Callable[..., Any] | None) -> Callable[..., Any]:
    """The backend that settings name.

    Raises:
        SettingsError: it is not there, or cannot be called.
    """
    if named is None:
        return anonymous
    if named == "jwt":
        return JWTAuth.from_environment()
    backend = lookup(named, "auth") if isinstance(named, str) else named
    if inspect.isclass(backend):
        backend = backend()
    if not callable(backend):
        kind = type(backend).__name__
        raise SettingsError(f"`auth`: {named!r} is {kind}, which cannot be called.")
    checked: Callable[..., Any] = backend
    return checked


async def identified(backend: Callable[..., Any], request: HTTPConnection) -> User | None:
    """Who a backend says has sent the request.

    Raises:
        AuthUnavailableError: it cannot say so now.
        TypeError: it says what names no user.
    """
    found = await call(backend, request)
    user = User(found) if isinstance(found, str) else found
    if user is None:
        return None
    if not isinstance(user, User) or not isinstance(user.user_id, str):
        kind = type(found).__name__
        raise TypeError(f"The auth backend returned {kind}, and no User, user id or None.")
    if user.user_id.strip() and not _is_user_id(user.user_id):
        raise TypeError(f"The auth backend returned a user id that is none: {user.user_id[:80]!r}.")
    return user if user.user_id.strip() else None


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"JWT_LEEWAY must be a number of seconds, not {text!r}."
        raise SettingsError(message) from None


def _is_user_id(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return bool(text.strip()) and len(text) <= _LONGEST_ID and "\x00" not in text


async def call(function: Callable[..., Any], *given: Any) -> Any:
    """Call what is sync or async; a sync one in a thread."""
    target = function if inspect.isroutine(function) else function.__call__  # type: ignore[operator]
    if inspect.iscoroutinefunction(target):
        return await function(*given)
    found = await run_in_threadpool(function, *given)
    return await found if inspect.isawaitable(found) else found
