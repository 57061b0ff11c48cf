"""The HTTP API: endpoints, limits around every request, connections."""
