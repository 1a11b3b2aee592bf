"""Build options, profiles, manifests, caches and files written whole."""
