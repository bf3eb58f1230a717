"""Deployment of policies: ONNX files, and datasets of their episodes."""
