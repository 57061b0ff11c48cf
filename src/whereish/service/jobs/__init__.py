"""Durable jobs: the database, the job store, the queue, the encryption of recipes and files."""
