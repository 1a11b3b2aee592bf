"""Greedy decoding: frames of an encoder to tokens, as the contract's `decoding` says.

In: `opening.open_decoder` of a contract's folder; frames of many streams by chunk. Out: tokens with their frames.

    frames ─► joiner ─► token, duration ─┬► blank: on to a later frame
                 ▲                       └► token ─► predictor, whose state stays on the device ─┐
                 └───────────────────────────────────────────────────────────────────────────────┘

`transducer.py` joins the steps of all streams into batches; `ctc.py` needs no models. Files beside the contract are
`stream/contract/decoding.py`'s `Decoding`.
"""
