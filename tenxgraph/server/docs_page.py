"""The page `/docs`: Swagger UI from installed files, so that it works without the internet."""

import hashlib
from base64 import b64encode
from importlib.resources import files
from importlib.util import find_spec

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

__all__ = ["docs_router"]

_PACKAGE = "fastapi_offline"
_TYPES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}

_SCRIPT = """
const base = document.documentElement.dataset.base;
SwaggerUIBundle({ url: base + "/openapi.json", dom_id: "#docs", deepLinking: true });
"""
_PAGE = """<!DOCTYPE html>
<html lang="en" data-base="{base}">
<head>
<meta charset="utf-8">
<title>tenxgraph</title>
<link rel="stylesheet" href="{base}/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="{base}/docs/swagger-ui-bundle.js"></script>
<script>{script}</script>
</body>
</html>
"""
_DIGEST = b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
# Swagger UI sets styles and shows pictures that it carries as data.
_POLICY = (
    f"default-src 'none'; script-src 'self' 'sha256-{_DIGEST}'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def docs_router() -> APIRouter:
    """Return the routes of the page; none if the package with its files is not installed."""
    router = APIRouter(include_in_schema=False)
    if find_spec(_PACKAGE) is not None:
        router.add_api_route("/docs", _page, methods=["GET"])
        router.add_api_route("/docs/{name}", _file, methods=["GET"])
    return router


async def _page(request: Request) -> Response:
    base = _escaped(request.scope.get("root_path", "").rstrip("/"))
    page = _PAGE.format(base=base, script=_SCRIPT)
    return HTMLResponse(page, headers=_HEADERS)


def _file(name: str) -> Response:
    if name not in _TYPES:
        return Response(status_code=404)
    content = files(_PACKAGE).joinpath("static", name).read_bytes()
    return Response(content, media_type=_TYPES[name], headers={"Cache-Control": "max-age=3600"})


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
