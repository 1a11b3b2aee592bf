"""Runs the tasks of pixi.toml without pixi: the standard library and pip are all it needs."""
