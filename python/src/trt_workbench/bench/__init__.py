"""Runtimes against one another on the same work: scenarios, sweeps, checks of outputs, ranking."""
