"""ONNX graphs as PyTorch modules: a torch.fx graph over plain functions, one for every operator."""
