"""SERVE: the HTTP API, durable jobs, keys and the page. No one tells it where they are."""
