"""The replication of the paper: what makes the book. Needs the extra ``book``."""
