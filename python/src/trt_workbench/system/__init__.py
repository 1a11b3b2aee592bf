"""GPU, drivers, libraries, versions and the workspace."""
