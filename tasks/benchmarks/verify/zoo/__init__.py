"""What `measure.py` verifies, and how."""
