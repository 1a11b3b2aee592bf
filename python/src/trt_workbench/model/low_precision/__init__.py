"""Models in lower precisions: which parts, with which ranges, and what the result computes, simulated exactly."""
