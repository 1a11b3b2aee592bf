"""What the embedded models are evaluated on, drawn by seed: scenes of the detector, the tone code of the encoder."""
