"""Every model type of transformers, tiny and random, asked for every law."""
