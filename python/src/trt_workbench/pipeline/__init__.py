"""Pre- and post-processing shared by every backend."""
