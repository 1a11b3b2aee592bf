from .cli import with_batch_profile as with_batch_profile
