"""PyTorch, eager and compiled, and language models by transformers."""
