"""The replication of the paper, which makes the book. Needs the extra ``book``."""
