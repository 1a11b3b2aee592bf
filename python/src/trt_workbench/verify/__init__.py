"""Whether an engine computes what its model says: at every batch and shape, by properties and beside a reference."""
