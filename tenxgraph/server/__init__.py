"""A graph over HTTP: `create_app(graph)`, or the command `tenxgraph serve` with a `10xgraph.json`.

Needs `pip install "tenxgraph[server]"`.
"""

try:
    from tenxgraph.server.app import create_app, load_app
    from tenxgraph.server.auth import AuthBackend, AuthUnavailableError, JWTAuth, User
    from tenxgraph.server.authorization import Authorization
    from tenxgraph.server.settings import RequestLimits, RunLimits, ServerSettings, SettingsError
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("fastapi", "starlette"):
        raise
    message = 'The server needs FastAPI: pip install "tenxgraph[server]".'
    raise ImportError(message) from error

__all__ = [
    "AuthBackend",
    "AuthUnavailableError",
    "Authorization",
    "JWTAuth",
    "RequestLimits",
    "RunLimits",
    "ServerSettings",
    "SettingsError",
    "User",
    "create_app",
    "load_app",
]
