"""Language models whatever executes them: their graphs, opening them on a backend, and greedy generation."""
