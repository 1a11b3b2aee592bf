"""TensorRT engines: build options, profiles, the cache, manifests, loading and inspection, by the native core."""
