"""The endpoints for operators and clients: health, readiness, metrics, version and limits."""

from __future__ import annotations

from fastapi import FastAPI, Request
from prometheus_client import generate_latest
from starlette.responses import Response

from whereish import __version__
from whereish.service.http import openapi
from whereish.service.http.context import Service
from whereish.service.http.errors import ApiError
from whereish.service.http.middleware import json_response


def add_operations(app: FastAPI, service: Service) -> None:
    """Add the endpoints."""
    settings = service.settings

    @app.get("/healthz", **openapi.HEALTH)
    async def get_health() -> Response:
        """Return that the process answers."""
        return json_response(200, {"status": "alive"})

    @app.get("/readyz", **openapi.READINESS)
    async def get_readiness() -> Response:
        """Return whether jobs can be taken and built."""
        await service.run(service.jobs.counts)
        if not service.queue.ready:
            raise ApiError("queue", "no worker can be started: see the log", "service")
        return json_response(200, {"status": "ready"})

    @app.get("/metrics", **openapi.METRICS)
    async def get_metrics(request: Request) -> Response:
        """Return metrics for Prometheus. They hold no personal data."""
        service.rates.check(await service.client(request))
        content = await service.run(generate_latest, service.registry)
        return Response(content, media_type="text/plain; version=0.0.4")

    @app.get("/v1/about", **openapi.ABOUT)
    async def get_about() -> Response:
        """Return the version and the limits of the service."""
        tiles = None
        if settings.map_file is not None:
            credit = settings.tiles_credit
            tiles = {"url": "/map.geojson", "kind": "geojson", "attribution": credit}
        elif settings.tiles is not None:
            tiles = {
                "url": settings.tiles if "://" in settings.tiles else "/tiles.pmtiles",
                "kind": "pmtiles" if settings.tiles.endswith(".pmtiles") else "raster",
                "attribution": settings.tiles_credit,
            }
        limits = settings.limits
        document = {
            "version": __version__,
            "key_needed": await service.key_needed(),
            "limits": {
                "places": limits.places,
                "body_bytes": limits.body_bytes,
                "time_limit_s": limits.time_limit_s,
                "memory_gb": limits.memory_gb,
            },
            "tiles": tiles,
        }
        return json_response(200, document)
