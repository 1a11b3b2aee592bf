"""`check-contract`: whether a streaming model does what its contract says."""
