"""The contract of a streaming model: read, checked, drafted, and what cuts streams and carries states by it."""
