"""The application: all endpoints and the page. No endpoint takes a true location."""

from __future__ import annotations

from importlib import metadata

from fastapi import FastAPI

from whereish.service.http import openapi
from whereish.service.http.context import Service
from whereish.service.http.errors import add_error_handlers
from whereish.service.http.mechanisms import add_mechanisms
from whereish.service.http.middleware import Middleware
from whereish.service.http.operations import add_operations
from whereish.service.http.site import add_page
from whereish.service.settings import Settings


def create_app(settings: Settings) -> tuple[Middleware, Service]:
    """Make the application, without listening."""
    service = Service(settings)
    app = FastAPI(
        title=openapi.TITLE, version=metadata.version("whereish"),
        description=openapi.DESCRIPTION, openapi_tags=openapi.TAGS,
        docs_url=None, redoc_url=None, openapi_url="/openapi.json", redirect_slashes=False,
    )  # fmt: skip
    add_error_handlers(app)
    fast_route = add_mechanisms(app, service)
    add_operations(app, service)
    add_page(app, service.settings)
    make_document = app.openapi
    app.openapi = lambda: openapi.complete(make_document())  # type: ignore[method-assign]
    return Middleware(app, settings, service.registry, fast_route), service
