"""The drawn scenes that the embedded detector is evaluated and calibrated on."""
