"""A model and data of one's own, for the commands ``inspect``, ``score`` and ``prune``."""
