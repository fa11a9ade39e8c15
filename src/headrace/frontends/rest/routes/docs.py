"""`/docs`: a page with every call of the API (Swagger UI), and the OpenAPI document that it reads.

The page works without a connection to other hosts: the node serves all of its files, and the
browser loads nothing else. Everything here is public, like the source code of Headrace.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from headrace.config.extras import install_command
from headrace.errors import NotFound
from headrace.frontends.http.api_route import ApiRoute
from headrace.frontends.http.auth import DOCS_PATH, OPENAPI_PATH

_FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
"""Files of the package fastapi_offline that a node serves, with their media types."""
_START = "start.js"
_HEADERS = {
    # The styles of Swagger UI contain images as data.
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    # A node of another version may answer at this address tomorrow.
    "Cache-Control": "no-cache",
}
# Addresses are relative, so that the page works below the path of a proxy.
_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headrace: HTTP API</title>
<link rel="icon" type="image/png" href="docs/favicon.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<noscript>This page needs JavaScript. The document that it shows: {OPENAPI_PATH}</noscript>
<div id="api"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/{_START}"></script>
</body>
</html>
"""
_START_SCRIPT = f"""SwaggerUIBundle({{
  url: "{OPENAPI_PATH.removeprefix("/")}",
  dom_id: "#api",
  layout: "BaseLayout",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  // The default would send the document to a site of its authors.
  validatorUrl: null,
}});
"""

router = APIRouter(include_in_schema=False)
openapi_router = APIRouter(include_in_schema=False, route_class=ApiRoute)


@router.get(DOCS_PATH)
async def show_docs() -> Response:
    """Show the page."""
    return HTMLResponse(_PAGE, headers=_HEADERS)


@router.get(f"{DOCS_PATH}/{_START}")
async def show_start_script() -> Response:
    """Return the script that starts Swagger UI. The policy of the page allows no inline script."""
    return Response(_START_SCRIPT, headers=_HEADERS, media_type="text/javascript")


@router.get(f"{DOCS_PATH}/{{name}}")
async def show_docs_file(name: str) -> Response:
    """Return a file of Swagger UI."""
    if name not in _FILES:
        raise NotFound(f"The page has no file {name[:100]!r}.")
    return FileResponse(_folder() / name, headers=_HEADERS, media_type=_FILES[name])


@openapi_router.get(OPENAPI_PATH)
def show_openapi_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return JSONResponse(request.app.openapi())


@cache
def _folder() -> Path:
    """Return the folder of the files of Swagger UI. The package is found, but not imported."""
    spec = importlib.util.find_spec("fastapi_offline")
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(
            "The page needs the package fastapi-offline.",
            hint=f"Install it on the node: {install_command('server')}.",
        )
    return Path(spec.submodule_search_locations[0]) / "static"
