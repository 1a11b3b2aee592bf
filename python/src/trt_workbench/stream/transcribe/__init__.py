"""Words of utterances: read from a manifest, heard by a model, decoded, and their errors.

In: `scoring.Spoken` of a manifest and a contract. Out: `words.json`.
"""
