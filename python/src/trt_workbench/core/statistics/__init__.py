"""Figures of samples: summaries, intervals, rank tests, and which of two sets of repetitions is faster."""
