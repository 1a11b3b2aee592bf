"""Scenarios, repetitions, statistics, records and the run directory."""
