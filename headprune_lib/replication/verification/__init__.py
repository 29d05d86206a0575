"""Verification of stored results, on the weights they were measured on or on retrained ones."""
