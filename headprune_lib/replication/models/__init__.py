"""Models: pretrained ones, and how encoders, translators and language models are trained and kept."""
