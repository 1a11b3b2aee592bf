"""Inputs to run sessions with, and what repeats and times their calls: loops, repetitions, telemetry, stability."""
