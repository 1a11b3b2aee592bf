"""Run directories, what they hold, and statistics."""
