"""Measuring the TensorRT core beside trtexec: cases, measurements, records, report."""
