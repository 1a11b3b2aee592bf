"""What surrounds a model on every backend: pre- and post-processing, and language models."""
