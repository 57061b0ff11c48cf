"""Durable jobs: the store, the queue, what is sealed."""
