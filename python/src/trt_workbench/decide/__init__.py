"""Candidates in a lower precision: made, measured and judged."""
