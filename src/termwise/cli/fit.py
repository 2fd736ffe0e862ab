"""`termwise fit`: read a table, choose the estimator, fit and score it, print and save."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import termwise as tw
from termwise._checks import import_optional
from termwise._files import is_special, same_file, write_file
from termwise.cli.columns import MISSING
from termwise.cli.console import Console, UsageError, check_output, counted, listed, with_error
from termwise.cli.scoring import MIN_ROWS_TO_SCORE, score_fit, split_rows
from termwise.cli.tables import read_table
from termwise.cli.task import Task, as_series, fill_breaks, fill_values, find_column, make_task, scored_rows
from termwise.explain.diagnostics import stored_facts
from termwise.explain.groups import MIN_SHARE, effect_name
from termwise.explain.scores import quoted_score
from termwise.explain.summary import size_lines
from termwise.recipe import dictionaries
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.size import RecipeOptions

pd = import_optional("pandas", "cli", "The command line")

MAX_TERMS_SHOWN = 15
MAX_COLUMNS_LISTED = 50  # where the target is asked for
MAX_OUTPUTS_SHOWN = 4  # columns of weights
MAX_EFFECTS_SHOWN = 12
MAX_CLASSES_SHOWN = 8  # of a confusion matrix
SCORE_NAMES = {"root mean squared error": "rmse", "mean absolute error": "mae", "free run: R2": "free_run_r2",
               "root mean squared error of the free run": "free_run_rmse", "log loss": "log_loss", "AUC": "auc",
               "calibration slope": "calibration_slope", "expected calibration error": "calibration_error"}  # fmt: skip
MAX_LEVELS = RecipeSettings.max_levels  # of a category with indicators; more are replaced by means of the target
LAGS = 10  # past values of a time series, unless --lags says otherwise
MAX_CENTERS = 500  # radial functions on a table with more rows
MAX_TERMS = RecipeOptions().max_terms  # of the default method, unless --size is larger
REGRESSORS = {"ridge": tw.BasisRidge, "local-ridge": tw.LocalRidge, "threshold": tw.OrthogonalThresholdRegressor,
              "evidence": tw.EvidenceForwardRegressor}  # fmt: skip
OPTIONS = {one.option: name for name, one in dictionaries.DICTIONARIES.items() if one.option is not None}
DICTIONARIES = {"auto": "auto"} | OPTIONS  # `--basis` of the automatic estimators


@dataclass(frozen=True)
class FitOptions:
    """Options of `termwise fit`; see its help."""

    data: Path
    target: str
    task: str = "auto"
    method: str = "auto"
    basis: str = "auto"
    size: str | int | None = None
    seed: int = 0
    lags: int | None = None  # with --basis lag 10 by default
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    time: str | None = None
    impute: bool = False
    hold_out: float | None = None
    score: bool = True
    report: Path | None = None
    out: Path | None = None
    force: bool = False
    loss: str = "auto"
    samples: bool = True

    @property
    def past(self) -> int:
        """Number of past values that a time series is predicted from; none of other tables."""
        return 0 if self.basis != "lag" else LAGS if self.lags is None else self.lags

    @property
    def command(self) -> str:
        """The command line that repeats the fit; of files it has the names without the folders."""
        words = ["termwise", "fit", self.data.name, "--target", self.target]
        for option in fields(self)[2:12]:
            value = getattr(self, option.name)
            if value != option.default:
                values = value if isinstance(value, tuple) else (value,)
                words += [word for each in values for word in (f"--{option.name}", str(each))]
        words += [] if self.loss == "auto" else ["--loss", self.loss]
        words += ["--impute"] * self.impute
        words += [] if self.hold_out is None else ["--hold-out", f"{self.hold_out:g}"]
        words += [] if self.score else ["--no-hold-out"]
        words += [] if self.out is None else ["-o", self.out.name]
        return shlex.join(words)


def ask_for_target(path: Path, missing: tuple[str, ...]) -> UsageError:
    """Return the error of a fit without a target, which lists the columns of the table and their kinds."""
    kinds = {"number": "numbers", "text": "strings", "date": "dates", "empty": "empty", "other": "neither"}
    columns = read_table(path, missing=missing).columns
    shown = []
    for name, column in columns.items():
        count = len(set(column.values[~column.missing].tolist())) if column.kind in ("number", "text") else 0
        shown.append(f"{name} ({kinds[column.kind]}{f', {count} different' if count else ''})")
    return UsageError(
        f"--target must name the column to predict, got none: {path} has {listed(shown, MAX_COLUMNS_LISTED)}. Which "
        f"one is it? For example: --target {shlex.quote(list(columns)[-1])}"
    )


def run_fit(options: FitOptions, console: Console) -> dict[str, Any]:
    """Run `termwise fit` and return what `--json` prints."""
    started = time.perf_counter()
    with console.step(f"reading {options.data.name}"):
        task = load_task(options)
    n, n_inputs, lagged = len(task.y), task.X.shape[1], options.basis == "lag"
    console.print(f"{options.data}: {counted(n, 'row')}, {counted(n_inputs, 'input')}, {task.kind} of {task.target}")
    notes = [*task.notes, *preprocessing_notes(task, options)]
    train, test = split_rows(task, options.hold_out, options.past, options.seed, notes)
    fill = fill_values(task.X.iloc[train].drop(columns=[task.target] if lagged else []))  # else a gap is a break
    X = task.X.fillna(fill) if options.impute else task.X
    y, series, weights = task.y, None, dict[str, Any]()
    if lagged:
        series, breaks = as_series(task, X, options.past)
        notes += breaks
        weights = {"sample_weight": scored_rows(series, options.past)[train].astype(float)}  # 0: no complete past
        X = fill_breaks(X)
        y = X[task.target].to_numpy()
    X_train, y_train = X.iloc[train].reset_index(drop=True), pd.Series(y[train], name=task.target)
    model = make_estimator(options, task.kind, X_train)
    with console.step(f"fitting {len(train)} rows", model, notes):
        model.fit(X_train, y_train.to_numpy(), **weights)
    scores: dict[str, Any] = {"cross_validation": {}} if task.ordered else {}  # folds of the fit itself are random
    if options.score and n < MIN_ROWS_TO_SCORE:
        notes.append(f"not compared with baselines: fewer than {MIN_ROWS_TO_SCORE} rows")
    elif options.score:
        with console.step("scoring the held-out rows" if len(test) else "cross-validating", notes=notes):
            scores = score_fit(model, X, task, series, test, options.seed)
    with console.step("collecting diagnostics", notes=notes):
        facts = tw.diagnostics.facts(model, X_train, y_train, **weights, **scores, reproduce=options.command,
                                     notes=list(dict.fromkeys(notes)))  # fmt: skip
    facts["command"] = {"target": task.target, "time": options.time, "lags": options.past}
    facts["command"] |= {"missing": list(options.missing)} if options.missing else {}
    facts["command"] |= {"decimal": task.decimal} if task.decimal else {}
    predictor = tw.Predictor.from_estimator(model).with_facts(stored_facts(facts, options.samples))
    predictor = predictor.with_fill(fill) if options.impute else predictor
    print_fit(facts, console)
    save_fit(predictor, options, console)
    return fit_record(task, facts, options) | {"seconds": round(time.perf_counter() - started, 3)}


def save_fit(predictor: Any, options: FitOptions, console: Console) -> None:
    """Write the model file and the report."""
    if options.out is None:
        console.print("Nothing is saved: -o MODEL.json keeps the model.")
    else:
        predictor.save(options.out)
        console.print(f"model: {options.out}", style="bold")
    if options.report is not None:
        page = tw.report.render(predictor, title=f"{options.target} from {options.data.name}")
        write_file(options.report, page)
        console.print(f"report: {options.report}", style="bold")


def fit_record(task: Task, facts: dict[str, Any], options: FitOptions) -> dict[str, Any]:
    """Return what `--json` prints."""
    model = facts["model"]
    return {
        "command": "fit", "model": None if options.out is None else str(options.out),
        "report": None if options.report is None else str(options.report), "task": task.kind, "target": task.target,
        "rows": len(task.y), "inputs": list(map(str, task.X.columns)), "estimator": model["class"],
        "n_terms": model["n_terms"], "n_candidates": model["n_candidates"], "terms": facts["terms"],
        "effects": facts["groups"], "larger_sizes": model["larger_sizes"], "score": quoted_score(facts["scores"]),
        "scores": facts["scores"], "baselines": facts["baselines"], "notes": facts["notes"],
    }  # fmt: skip


# -- data --------------------------------------------------------------------------------------------------------------


def load_task(options: FitOptions) -> Task:
    """Return inputs and target; those of a time series sorted, with the target as the first of the inputs."""
    for path in filter(None, (options.out, options.report)):
        check_output(path, [options.data])
    if options.out is not None and options.report is not None and same_file(options.out, options.report):
        raise UsageError(f"-o and --report must be different files, got {options.report} twice: rename one of them.")
    exists = options.out is not None and options.out.exists() and not is_special(options.out)
    if exists and not options.force:
        raise ValueError(f"{options.out} exists already: use --force to replace it, or give another name with -o.")
    table = read_table(options.data, options.category, expected=[options.target], missing=options.missing)
    found = MISSING.union(*(column.found for column in table.columns.values()))
    unused = [word for word in options.missing if word.strip().lower() not in found]
    table = replace(table, notes=[*table.notes, *(f"--missing {word} occurs nowhere in the table" for word in unused)])
    for name in options.category:
        find_column(table, name)
    series = options.basis == "lag"
    task = make_task(table, options.target, kind=options.task, drop=options.drop, time=options.time,
                     impute=options.impute, series=series)  # fmt: skip
    words = [name for name in task.X.columns if str(task.X[name].dtype) == "category"]
    if series and words:
        raise ValueError(f"--basis lag must have inputs of numbers, got text in {', '.join(words)}: leave it out with "
                         + " ".join(f"--drop {shlex.quote(name)}" for name in words) + ".")  # fmt: skip
    check_options(options, task.kind)
    if not series:
        return task
    if len(task.y) < 3 * options.past:
        raise ValueError(f"--lags must be at most a third of the {len(task.y)} rows, got {options.past}: use --lags "
                         f"{max(1, len(task.y) // 3)}.")  # fmt: skip
    X = task.X.assign(**{task.target: task.y})[[task.target, *task.X.columns]]
    order = "" if task.ordered else "; rows are taken to be in the order of time, --time orders them"
    notes = [*task.notes, f"a time series: predicted from its last {options.past} values{order}"]
    return replace(task, X=X, notes=notes, ordered=True)


def preprocessing_notes(task: Task, options: FitOptions) -> list[str]:
    """Return notes on encoding, imputation and scaling."""
    notes = []
    fill = fill_values(task.X.drop(columns=[task.target] if options.basis == "lag" else []))
    for name, column in task.X.items():
        if str(column.dtype) == "category":
            levels = column.cat.categories
            few = f"one-hot encoded: {', '.join(map(str, levels))}"
            notes.append(f"{name} is categorical, {few if len(levels) <= MAX_LEVELS else f'with {len(levels)} levels'}")
        if column.dtype.kind == "M":
            notes.append(f"{name} is a date, expanded to the elapsed time, year, season, weekday and hour")
        if column.isna().any():
            value = "where a new sequence begins" if options.basis == "lag" else "kept as missing"
            if options.impute and name in fill:
                value = "imputed with " + (f"{fill[name]:.6g}" if isinstance(fill[name], float) else fill[name])
            notes.append(f"{name} is missing in {counted(column.isna().sum(), 'row')}, {value}")
    plain = options.method == "forward" and options.basis in ("auto", "none")
    if not plain and options.basis != "lag":
        notes.append("inputs are standardised inside the model: weights refer to standardised inputs")
    return notes


# -- estimator ---------------------------------------------------------------------------------------------------------


def check_options(options: FitOptions, kind: str) -> None:
    """Raise on options that the task does not allow, or that have no effect together."""
    method, basis, size = options.method, options.basis, options.size
    if options.hold_out is not None and not options.score:
        raise UsageError(f"--hold-out {options.hold_out:g} and --no-hold-out exclude each other: leave one out.")
    if options.lags is not None and basis != "lag":
        raise UsageError(f"--lags requires --basis lag, got --basis {basis}: add --basis lag, or leave --lags out.")
    if size == "readable" and (method == "forward" or basis == "lag"):
        raise UsageError("--method forward and --basis lag have no --size readable: use accurate or a number of terms, "
                         "or leave it out.")  # fmt: skip
    if method == "prefilter" and kind == "regression":
        raise UsageError("--method prefilter is a classifier, but the target is numbers: use --method auto, or --task "
                         "classification if its values are classes.")  # fmt: skip
    if method in REGRESSORS and kind == "classification":
        raise UsageError(f"--method {method} is a regressor, but the target is classes: use --method auto, forward or "
                         "prefilter, or --task regression if its values are numbers.")  # fmt: skip
    if basis == "lag" and kind == "classification":
        raise UsageError("--basis lag requires a target of numbers, got classes: leave it out.")
    if method == "auto" and basis not in DICTIONARIES and basis != "lag":
        raise UsageError(f"--method auto has no --basis {basis}: use --method forward --basis {basis}, or one of "
                         f"{', '.join(DICTIONARIES)}.")  # fmt: skip
    if method == "prefilter" and basis not in ("auto", "none", "rbf"):
        raise UsageError(f"--method prefilter has no --basis {basis}: use auto or none.")
    needs_number = method in ("evidence", "prefilter")
    if size is not None and method not in ("auto", "forward") and not (needs_number and isinstance(size, int)):
        remedy = "give a number of terms, or leave it out" if needs_number else "leave it out, or use --method auto"
        raise UsageError(f"--method {method} cannot do --size {size}: {remedy}.")
    if options.loss != "auto" and (kind == "classification" or method not in ("auto", "forward")):
        raise UsageError(f"--loss {options.loss} requires a target of numbers and --method auto or forward: leave it "
                         "out.")  # fmt: skip


def make_estimator(options: FitOptions, kind: str, X: Any) -> Any:
    """Return the estimator for these options and inputs."""
    method, size, seed = options.method, options.size, options.seed
    number = size if isinstance(size, int) else None
    if method == "auto" and options.basis != "lag":
        automatic = tw.TermwiseClassifier if kind == "classification" else tw.TermwiseRegressor
        max_terms = max(number or 0, MAX_TERMS)
        own: dict[str, Any] = {} if options.loss == "auto" else {"loss": options.loss}
        dictionary = DICTIONARIES[options.basis]
        return automatic(size or "small", dictionary=dictionary, random_state=seed, max_terms=max_terms, **own)
    if method == "prefilter":
        limit: dict[str, Any] = {} if size is None else {"max_terms": size, "criterion": None}
        if options.basis == "none":
            basis = make_pipeline(*encoders(X), StandardScaler())
            return tw.PrefilterClassifier(basis, fit_intercept=True, random_state=seed, **limit)
        model = tw.PrefilterClassifier(random_state=seed, **limit)
        return model if is_complete_table(X) else make_pipeline(*encoders(X), model)
    basis = make_basis(options, X)
    if method in ("auto", "forward"):
        forward = tw.ForwardClassifier if kind == "classification" else tw.ForwardRegressor
        criterion = None if number else "loo" if size == "accurate" else "tcr"
        if options.loss not in ("auto", "squared"):
            return forward(basis, criterion=criterion, max_terms=number, loss=options.loss)
        refit = None if kind == "classification" else "loo"
        return forward(basis, refit_alpha=refit, criterion=criterion, max_terms=number)
    limit = {"max_terms": number} if method == "evidence" else {}
    return REGRESSORS[method](basis, **limit)


def make_basis(options: FitOptions, X: Any) -> Any:
    """Return the transformer that generates the candidates; None for the columns themselves."""
    name, seed = options.basis, options.seed
    if name == "lag":
        return tw.LagBasis(options.past, input_lags=range(options.past + 1), output=options.target)
    if name == "auto":
        name = "rbf" if options.method == "threshold" else "none"
    if name == "none":
        if options.method in REGRESSORS:
            return make_pipeline(*encoders(X), StandardScaler())  # a common penalty presumes a common scale
        return None if is_complete_table(X) else make_pipeline(*encoders(X))
    centers: Any = MAX_CENTERS if len(X) > MAX_CENTERS else "samples"
    steps = {
        "rbf": [StandardScaler(), tw.RadialBasis(width="median", centers=centers, random_state=seed)],
        "smooth": [tw.SmoothBasis(centers=centers, random_state=seed)],
        "relevant": [tw.SmoothBasis(centers=centers, random_state=seed, relevance="auto")],
        "anova": [tw.AnovaBasis()],
        "hinges": [tw.AnovaBasis(functions=("linear", "hinge"))],
        "steps": [tw.AnovaBasis(functions=("linear", "step"))],
        "rules": [tw.UnionBasis([tw.AnovaBasis(n_centers=0, order=1), tw.RuleBasis()])],
        "fourier": [tw.FourierBasis()],
    }
    if name not in steps:
        raise UsageError(f"--method {options.method} has no --basis {name}: use --method auto, or another basis.")
    front, last = steps[name][:-1], steps[name][-1]
    encoder = tw.basis.TableEncoder(max_levels=None if front else MAX_LEVELS, new_missing="mean")
    levels = encoder.fit(X).level_columns()
    last = tw.basis.LevelMeans(last, levels) if len(levels) else last
    return make_pipeline(encoder, *([] if last.allows_missing else imputer(X)), *front, last)


def is_complete_table(X: Any) -> bool:
    """Whether all columns are numbers, none of which is missing."""
    return all(dtype.kind == "f" for dtype in X.dtypes) and not X.isna().any(axis=None)


def encoders(X: Any) -> list[Any]:
    """Return the transformers in front of columns, or of a basis that does not allow missing values.

    A fold may have missing values in columns that have none without it.
    """
    return [tw.basis.TableEncoder(new_missing="mean"), *imputer(X)]


def imputer(X: Any) -> list[Any]:
    """Return the transformer that fills missing numbers, which have an indicator; none if there are none.

    It fills in the mean, where a linear function is neutral.
    """
    return [SimpleImputer()] if any(X[name].isna().any() for name in X if X[name].dtype.kind in "fM") else []


# -- output ------------------------------------------------------------------------------------------------------------


def print_fit(facts: dict[str, Any], console: Console) -> None:
    """Print notes, terms with weights and standard errors, and the score beside those of baselines."""
    model, terms, score = facts["model"], facts["terms"], quoted_score(facts["scores"])
    console.print_notes(facts["notes"])
    title = f"{model['class']}: {model['n_terms']} of {model['n_candidates']} terms ({model['dictionary']})"
    outputs = model["outputs"][:MAX_OUTPUTS_SHOWN]
    several = len(model["outputs"]) > 1
    header = ["term", *(f"for {name}" if several else "weight" for name in outputs), "std. error\ngiven the terms"]
    blank = [""] * (len(outputs) + 1)
    rows = []
    sets = list(dict.fromkeys(tuple(term["inputs"]) for term in terms))  # terms of the same inputs stay together
    for term in sorted(terms, key=lambda term: sets.index(tuple(term["inputs"])))[:MAX_TERMS_SHOWN]:
        error = "" if term["std_error"] is None else f"{max(term['std_error']):.4g}"
        rows.append((term["name"], *(f"{weight:.4g}" for weight in term["weight"][: len(outputs)]), error))
    if len(terms) > MAX_TERMS_SHOWN:
        rows.append((f"... and {model['n_terms'] - MAX_TERMS_SHOWN} more", *blank))
    if not terms:
        rows.append(("none: the model is the mean", *blank))
    link = "; the terms add up to the logarithm of the prediction" if model.get("link") == "log" else ""
    console.print_table(f"{title}, fitted to {counted(model['n'], 'row')}{link}", header, rows)
    print_effects(facts["groups"], console)
    if score:
        print_score(score, facts, console)
    for line in size_lines(model["larger_sizes"]):
        console.print(f"--size {line}")


def print_effects(groups: list[dict[str, Any]], console: Console) -> None:
    """Print the effects with their shares of the variance, unless each is one term."""
    single = all(len(one["inputs"]) == one["n_terms"] == 1 for one in groups)
    if single or len(groups) < 2 or groups[0]["share"] is None:
        return
    large = [one for one in groups if one["share"] >= MIN_SHARE][:MAX_EFFECTS_SHOWN]
    rows = [(effect_name(one["inputs"]), str(one["n_terms"]), f"{one['share']:.1%}") for one in large]
    if rest := groups[len(large) :]:
        rows.append((f"... and {len(rest)} more", "", f"{sum(one['share'] for one in rest):.1%}"))
    console.print_table("effects: terms grouped by their inputs", ["inputs", "terms", "share of the variance"], rows)


def print_score(score: dict[str, Any], facts: dict[str, Any], console: Console) -> None:
    """Print the score, how it was estimated, and those of baselines by the same protocol."""
    console.print(f"{score['metric']} {with_error(score)} ({score['protocol']})", style="bold")
    found = [f"{name} {score[key]:.4g}" for name, key in SCORE_NAMES.items() if key in score]
    if "coverage" in score:
        found.append(f"{score['coverage']:.0%} of these rows inside their {score['nominal']:.0%} interval")
    if found:
        console.print(", ".join(found))
    confusion = score.get("confusion")
    if confusion and len(confusion["classes"]) <= MAX_CLASSES_SHOWN:
        header = ["observed", *(f"predicted {name}" for name in confusion["classes"])]
        counts = [list(map(str, row)) for row in confusion["counts"]]
        rows = [(name, *row) for name, row in zip(confusion["classes"], counts, strict=True)]
        console.print_table(f"confusion matrix of {facts['confusion']['how']} predictions", header, rows)
    if facts["baselines"]:
        rows = [("this model", with_error(score), str(facts["model"]["n_terms"]))]
        rows += [(str(one.get("title", one["name"])), with_error(one), str(one["terms"])) for one in facts["baselines"]]
        console.print_table(
            "compared with baselines, by the same protocol on the same rows", ["", str(score["metric"]), "terms"], rows
        )
