"""The application: all endpoints and the page. No endpoint takes a true location."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.routing import APIRoute

from whereish import __version__
from whereish.service.http import openapi
from whereish.service.http.context import Service
from whereish.service.http.errors import add_error_handlers
from whereish.service.http.mechanisms import add_mechanisms
from whereish.service.http.middleware import FastRoute, Middleware
from whereish.service.http.operations import add_operations
from whereish.service.http.site import add_page
from whereish.service.settings import Settings


def create_api(service: Service) -> tuple[FastAPI, FastRoute]:
    """Make all endpoints, and the fast route for the state of a job."""
    api = FastAPI(
        title=openapi.TITLE, version=__version__,
        description=openapi.DESCRIPTION, openapi_tags=openapi.TAGS,
        docs_url=None, redoc_url=None, openapi_url="/openapi.json", redirect_slashes=False,
    )  # fmt: skip
    add_error_handlers(api)
    fast_route = add_mechanisms(api, service)
    add_operations(api, service)
    add_page(api, service.settings)
    _answer_head(api)
    make_document = api.openapi
    api.openapi = lambda: openapi.complete(make_document())  # type: ignore[method-assign]
    return api, fast_route


def _answer_head(api: FastAPI) -> None:
    """Have every endpoint that answers GET answer HEAD, except the endless stream of events."""
    for route in list(api.routes):
        if (
            isinstance(route, APIRoute)
            and route.methods == {"GET"}
            and route.name != "stream_events"
        ):
            api.add_api_route(route.path, route.endpoint, methods=["HEAD"], include_in_schema=False)


def create_app(settings: Settings) -> tuple[Middleware, Service]:
    """Make the application, without listening."""
    service = Service(settings)
    api, fast_route = create_api(service)
    return Middleware(api, settings, service.registry, fast_route), service
