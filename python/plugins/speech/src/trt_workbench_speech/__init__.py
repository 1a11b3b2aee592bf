"""`eval-speech`: words of a manifest's utterances, their error rates, and how precisions differ in them.

In: `run.Transcription` of the opened stream and a manifest. Out: `document.SpeechMetrics`, `transcripts.jsonl`.
For `decide`, `quantize` and `sensitivity` it reads utterances (`spoken.Spoken`) and scores words (`scoring.WordsTask`).

    utterances ─┬► reference: pool ─► decoder ─► words ─┬► error rates, paired differences ─► gates
                └► each precision: the same ────────────┘
"""
