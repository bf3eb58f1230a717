"""Deployment of policies: ONNX and torch.export."""
