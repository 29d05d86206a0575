"""Pruned models in forms that other programs load: transformers' own and ONNX."""

from headprune_lib.export.onnx_graph import export_onnx
from headprune_lib.export.transformers_folder import export_transformers

__all__ = ["export_onnx", "export_transformers"]
