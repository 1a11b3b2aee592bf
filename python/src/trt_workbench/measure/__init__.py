"""Repetitions, telemetry, stability, and the measurement of a single engine or model."""
