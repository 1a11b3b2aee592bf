"""What every package may use: one home for each shared concept (arrays compared, precisions, workers)."""
