"""Models in a lower precision, made from float ones."""
