"""Pretrained models, and the training and storage of encoders, translators and language models."""
