"""What a page's numbers are."""

Numbers = dict[str, float | int | str]
"""Glue key -> value."""
