"""Numbers by which tests of limits count."""

import numpy as np

UNIT = 2.0**-24
FLOOR = 8 * UNIT  # of fp32: what is allowed where the noise changes nothing
INF, NAN = np.inf, np.nan
