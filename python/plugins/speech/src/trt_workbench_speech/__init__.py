"""`eval-stream --transcribe`: words of a manifest's utterances, their error rates, and how precisions differ in them.

In: `run.Transcription` of the opened stream and a manifest. Out: `document.Transcribed`, `transcripts.jsonl`.

    utterances ─┬► reference: pool ─► decoder ─► words ─┬► error rates, paired differences ─► gates
                └► each precision: the same ────────────┘
"""
