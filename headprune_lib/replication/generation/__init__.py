"""Translations of encoder-decoders, also under many masks at once."""
