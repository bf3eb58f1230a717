"""Policies to take along: ONNX and torch.export."""
