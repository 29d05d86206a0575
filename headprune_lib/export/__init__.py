"""Export of pruned models to forms that other programs load: transformers, ONNX, GGUF."""

from headprune_lib.export.gguf import export_gguf
from headprune_lib.export.onnx import export_onnx
from headprune_lib.export.transformers import export_transformers

__all__ = ["export_gguf", "export_onnx", "export_transformers"]
