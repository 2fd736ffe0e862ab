"""Which columns matter: support recovery and risk on the problems of Hastie, Tibshirani and Tibshirani (2020).

Four settings (samples, columns, true columns), three correlations, five vectors of coefficients and ten signal-to-noise
ratios: `selection_problems`. The paper tunes every method on as many further samples as there are for training; here
no method has more than the training samples: the peers are tuned by ten-fold cross-validation, `ForwardRegressor` by its
criteria (`selection_methods`). "ForwardRegressor, cross-validated" is the setting for prediction that the comparison
with the relaxed lasso is about; it was fixed on the seeds from 1,001 on, before the problems of this study were drawn.

Tables have means over all other conditions; `ours` is the mean over problems and repeats, `ours_sd` the standard
deviation between them. Seconds are of one process on one thread.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from _reproduce import Record, cell, group
from selection_methods import FALSE_DISCOVERIES, METHODS, REQUIRED, Method
from selection_problems import BETA_TYPES, CORRELATIONS, SETTINGS, SNRS, draw, measure

TITLE = "Hastie, Tibshirani and Tibshirani (2020): selection of columns beside the lasso and best subsets"
QUANTITIES = {
    "risk": "relative risk",
    "test_error": "relative test error",
    "explained": "variance explained",
    "nonzeros": "nonzeros",
    "f1": "F1",
    "seconds": "seconds",
}
REFERENCE, PLAIN = "relaxed lasso", "forward stepwise"
FDR_SETTINGS = ("medium", "high-10")  # at least as many samples as a covariance of the candidates needs
QUICK_SNRS = (0.25, 1.22, 6.0)
DIGITS = 6
