"""Hagiwara (2014), Tables 2 and 3: test error and size of models chosen by LOOCV, one standard error, FPE and TCR.

His protocol: all variables standardised, Gaussians on the training samples, selection by cost, width by leave-one-out,
penalty 1e-6, random splits. Needs the data sets: set TERMWISE_DATA to their folder.
"""

from __future__ import annotations

import argparse

import numpy as np
from _timing import emit, machine

from termwise import RadialBasis, datasets, forward_path

# samples for training and for testing, path length, candidates for tau; then TCR's error and size in the paper
SETS = {
    "ailerons": (1000, 2000, 200, (120, 140, 160, 180, 200), (0.187, 0.012), (25.8, 8.5)),
    "delta_ailerons": (1000, 2000, 200, (2, 5, 10, 15, 20), (0.359, 0.04), (21.9, 8.5)),
    "elevators": (1000, 2000, 200, (25, 50, 75, 100, 125), (0.144, 0.018), (46.2, 12.7)),
    "delta_elevators": (1000, 2000, 200, (2, 5, 10, 30, 50), (0.39, 0.024), (11.2, 6.9)),
    "boston_housing": (150, 356, 50, (20, 30, 40, 50, 60), (0.214, 0.041), (18.4, 4.2)),
    "auto_mpg": (150, 242, 50, (2, 5, 10, 15, 20), (0.163, 0.024), (15.1, 7.3)),
}
CRITERIA = ("loo", "one_se", "fpe", "tcr_paper", "tcr")


def one_split(name: str, split: int) -> dict[str, tuple[float, int]]:
    """Test error and number of terms by each criterion."""
    n_train, n_test, length, taus, _, _ = SETS[name]
    data = datasets.load(name)
    table = np.column_stack([data.data, data.target])
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    rows = np.random.default_rng(split).permutation(len(table))
    train, test = table[rows[:n_train]], table[rows[n_train : n_train + n_test]]
    best: dict[str, tuple[float, float, int]] = {}
    for tau in taus:
        basis = RadialBasis(width=np.sqrt(tau)).fit(train[:, :-1])
        path = forward_path(
            basis.transform(train[:, :-1]), train[:, -1], rule="cost", max_terms=length, fit_intercept=False
        )
        new = basis.take(path.terms).transform(test[:, :-1])
        for criterion in CRITERIA:
            k = path.choose(criterion)
            judged = path.steps[path.choose("loo") if criterion == "one_se" else k].loo
            error = float(np.mean((test[:, -1] - new[:, :k] @ path.coef(k)[0]) ** 2))
            if criterion not in best or judged < best[criterion][0]:
                best[criterion] = judged, error, k
    return {criterion: (error, k) for criterion, (_, error, k) in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="number of random splits")
    parser.add_argument("--small", action="store_true", help="two splits of the small sets")
    options = parser.parse_args()
    emit(benchmark="hagiwara", **machine())
    names, splits = (list(SETS)[4:], 2) if options.small else (list(SETS), options.repeats)
    for name in names:
        try:
            results = [one_split(name, split) for split in range(splits)]
        except OSError as error:
            emit(benchmark="hagiwara", set=name, skipped=str(error))
            continue
        for criterion in CRITERIA:
            errors, sizes = np.array([result[criterion] for result in results]).T
            record = {"error": errors.mean(), "error_sd": errors.std(), "terms": sizes.mean(), "terms_sd": sizes.std()}
            paper = dict(zip(("error", "terms"), SETS[name][4:], strict=True)) if criterion == "tcr_paper" else {}
            within = {f"{key}_within": bool(abs(record[key] - mean) <= sd) for key, (mean, sd) in paper.items()}
            emit(benchmark="hagiwara", set=name, criterion=criterion, splits=splits, paper=paper,
                 **{key: round(float(value), 4) for key, value in record.items()}, **within)  # fmt: skip


if __name__ == "__main__":
    main()
