"""Solves on a Ray cluster. Nothing outside this folder imports Ray."""
