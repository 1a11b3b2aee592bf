"""What to run on a model and how to score it."""
