"""The page and its files: all are served from here, none from other sites."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from whereish.service.http.errors import ApiError
from whereish.service.http.middleware import json_response
from whereish.service.settings import Settings

PAGE = Path(__file__).parent.parent / "page"
_DOCS = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Whereish: HTTP API</title>
<link rel="stylesheet" href="/assets/vendor/swagger-ui.css">
<div id="api"></div>
<script src="/assets/vendor/swagger-ui-bundle.js"></script>
<script src="/assets/docs.js"></script>
</html>
"""


@cache
def city_document() -> bytes:
    """Return the embedded city, which the page shows first."""
    from whereish.profiles import embedded_city

    city = embedded_city()
    latlon, backdrop = city.places.latlon, city.backdrop
    if latlon is None or backdrop is None:
        raise RuntimeError("the embedded city must have coordinates and a backdrop")
    document = {
        "name": "Paris, a made-up person",
        "latlon": latlon.round(7).tolist(),
        "cell_km": city.places.cell_km,
        "prior": city.prior.tolist(),
        "lines": backdrop.lines,
        "names": [{"name": name, "latlon": [lat, lon]} for name, lat, lon in backdrop.names],
    }
    return json.dumps(document).encode()


def add_page(app: FastAPI, settings: Settings) -> None:
    """Add the page, its files, the embedded city and the page that documents the API."""
    fresh = {"cache-control": "no-cache"}

    @app.get("/city.json", include_in_schema=False)
    async def embedded() -> Response:
        return json_response(200, await run_in_threadpool(city_document), fresh)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        if not (PAGE / "vendor" / "stamp").exists():
            raise ApiError("page", "the page is not built: python hatch_build.py", "page")
        return FileResponse(PAGE / "index.html", headers=fresh)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(_DOCS, 200, fresh, "text/html")

    tiles, map_file = settings.tiles, settings.map_file
    if map_file is not None:

        @app.get("/map.geojson", include_in_schema=False)
        async def local_map() -> Response:
            return FileResponse(map_file, headers=fresh, media_type="application/geo+json")

    elif tiles is not None and "://" not in tiles:

        @app.get("/tiles.pmtiles", include_in_schema=False)
        async def local_tiles() -> Response:
            return FileResponse(tiles, headers=fresh)

    class Assets(StaticFiles):
        def file_response(self, *args: Any, **kwargs: Any) -> Response:
            made = super().file_response(*args, **kwargs)
            made.headers["cache-control"] = "no-cache"
            return made

    app.mount("/assets", Assets(directory=PAGE, check_dir=False), name="assets")
