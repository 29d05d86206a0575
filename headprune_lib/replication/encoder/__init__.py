"""The encoder half: pretrained encoders, their fine-tuning, and outcomes under masks."""
