"""Language models: a pretrained one and its text, loss of every passage under masks, LoRA."""
