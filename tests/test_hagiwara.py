"""Hagiwara (2014) on his data: the benchmark's protocol, a few splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import needs_data


@needs_data
@pytest.mark.parametrize("name", ["boston_housing", "auto_mpg", "delta_elevators"])
def test_tables_2_and_3(name, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import reproduce_hagiwara2014 as study

    results = [study.run({"part": "tables", "set": name, "split": split}) for split in range(4)]
    position = study.COLUMNS.index("TCR")
    (error, error_sd), (size, size_sd) = study.ERRORS[name][position], study.SIZES[name][position]
    for title in ("TCR", "TCR, termwise"):  # with as many candidates as samples both are close to the tables
        assert all(result[title][1] <= result["LOOCV"][1] for result in results)
        errors, sizes = np.array([result[title] for result in results]).T
        assert abs(errors.mean() - error) < 2 * error_sd  # four splits, not twenty
        assert abs(sizes.mean() - size) < 2 * size_sd
