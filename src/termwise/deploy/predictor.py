"""`Predictor`: a fitted model without its data, to keep, to send and to run elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from termwise._checks import check_choice, check_number
from termwise.basis.encoder import is_frame
from termwise.deploy.document import FORMAT, VERSION, read_document, text_of, write_atomically
from termwise.deploy.freeze import freeze
from termwise.deploy.inputs import Input
from termwise.deploy.plain import read_dict, read_text, wrong
from termwise.deploy.program import Program

Floats = NDArray[np.float64]

LANGUAGES = {"json": ".json", "python": ".py", "c": ".c", "onnx": ".onnx"}
WRITERS = {"python": "termwise.deploy.python", "c": "termwise.deploy.c", "onnx": "termwise.deploy.onnx_graph"}
OPTIONS = {"json": (), "python": (), "c": ("dtype", "name"), "onnx": ("dtype",)}


def _classifies(predictor: Predictor) -> bool:
    return predictor._program.labels is not None


def _knows_odds(predictor: Predictor) -> bool:
    return predictor._program.labels is not None and predictor._program.labels.sharpness is not None


@dataclass(frozen=True, eq=False, repr=False)
class Predictor:
    """A fitted model without its data: what is needed to predict, and nothing else.

    Every fitted estimator has one, `estimator.predictor_`; `from_estimator` makes one of a pipeline too. It holds the
    chosen terms only, can be saved as one JSON file of plain data, and be written down as Python, C or ONNX.

    Attributes
    ----------
    task : {"regression", "classification"}
        What it predicts.
    inputs : tuple of Input
        For each input its `name`, `kind` ("number" or "category"), `categories` (None for numbers) and `fill` (what
        stands in for a missing value; None: a missing value is an error).
    input_names : list of str
        Their names.
    used_inputs : list of str
        Names of those that the terms look at; a data frame need not have the others.
    term_names : list of str
        Names of the terms.
    n_terms : int
        Their number k.
    weights : ndarray of shape (q, k)
        Their weights for each of q outputs.
    intercept : ndarray of shape (q,)
        What is added.
    classes : list or None
        The labels of a classifier.
    facts : dict or None
        What is known of the model besides, as `termwise.diagnostics.facts` collects it; it is kept in the file.

    See Also
    --------
    load_predictor : Read a saved model.

    Notes
    -----
    `predict` gives what the estimator gives, but for rounding, computed in float64. Differences to the estimator's way
    with its inputs: columns of a data frame are found by name in any order, and an unknown category is an error.

    A model on a `LagBasis` takes, as the estimator does, a table in the order of time, and predicts each row from those
    before it; `free_run` feeds predictions back. Its ONNX graph takes such a table too. In Python and C the exported
    function takes the last rows, oldest first, and predicts the newest.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor, load_predictor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> predictor = ForwardRegressor().fit(X, y).predictor_
    >>> predictor.term_names
    ['bmi', 's5', 'bp', 's1', 'sex', 's2']
    >>> path = os.path.join(tempfile.mkdtemp(), "diabetes.json")
    >>> predictor.save(path)
    >>> bool((load_predictor(path).predict(X) == predictor.predict(X)).all())
    True
    """

    _program: Program
    facts: dict[str, Any] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any) -> Predictor:
        """Freeze a fitted model.

        Parameters
        ----------
        estimator : fitted estimator or Pipeline
            One of termwise's estimators, or a pipeline of scikit-learn that ends in one, with scalers, selectors of
            columns, `TableEncoder` or bases in front. Where a transformer is not known, the error lists those that are.

        Returns
        -------
        predictor : Predictor
            The model as it is now: fitting the estimator again does not change it.
        """
        return cls(freeze(estimator))

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def task(self) -> str:
        """What it predicts."""
        return "regression" if self._program.labels is None else "classification"

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Names, kinds, categories and fills of the inputs."""
        return self._program.reading.inputs

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return [one.name for one in self.inputs]

    @property
    def used_inputs(self) -> list[str]:
        """Names of the inputs that the terms look at."""
        return [self.inputs[j].name for j in self._program.reading.used]

    @property
    def term_names(self) -> list[str]:
        """Names of the terms."""
        return list(self._program.linear.names)

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        return len(self._program.linear.names)

    @property
    def weights(self) -> Floats:
        """Weights of the terms, (q, k)."""
        return self._program.linear.weights.copy()

    @property
    def intercept(self) -> Floats:
        """What is added, (q,)."""
        return self._program.linear.intercept.copy()

    @property
    def classes(self) -> list[Any] | None:
        """The labels of a classifier."""
        return None if self._program.labels is None else list(self._program.labels.classes)

    def __repr__(self) -> str:
        names = ", ".join(self.used_inputs[:4]) + ", ..." * (len(self.used_inputs) > 4)
        return f"<Predictor: {self.task} by {self.n_terms} terms of {names or 'nothing'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predictor) and self.to_dict() == other.to_dict()

    # -- predicting ----------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray:
        """Predict targets or labels.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs. Columns of a pandas or polars frame are found by name, others are ignored; those of an array are in
            the order of the fit.

        Returns
        -------
        y : ndarray of shape (m,) or (m, q)
            Predictions.
        """
        labels = self._program.labels
        return self._outputs(X) if labels is None else labels.decide(self._program.scores(X))

    @available_if(_classifies)
    def decision_function(self, X: Any) -> NDArray:
        """Return the output of a classifier: positive for the second class, or one column per class.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs.
        """
        return self._outputs(X)

    @available_if(_knows_odds)
    def predict_proba(self, X: Any) -> NDArray:
        """Return the probability of each class, where the estimator has it.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs.
        """
        assert self._program.labels is not None
        return self._program.labels.probabilities(self._program.scores(X)).astype(precision_of(X), copy=False)

    def _outputs(self, X: Any) -> NDArray:
        scores = self._program.scores(X).astype(precision_of(X), copy=False)
        return scores[:, 0] if self._program.linear.one_output else scores

    def free_run(self, X: Any, start: int | None = None) -> Floats:
        """Simulate the series of a model on a `LagBasis`, feeding each prediction back as a past value.

        Parameters
        ----------
        X : array-like or data frame of shape (m, d)
            Table in the order of time. Values of the series from row `start` on are not read and may be missing.
        start : int, default=None
            First simulated row; by default the first that has a complete history.

        Returns
        -------
        y : ndarray of shape (m,)
            The series as it was before `start`, simulated from there on.
        """
        lags, series = self._program.lags, self._program.series
        if lags is None or series is None or self.task != "regression" or not self._program.linear.one_output:
            raise ValueError(
                "free_run needs a model of one series on its past values, got another: fit with basis=LagBasis(...)."
            )
        table, output = self._numeric_table(X), self.input_names.index(series)
        start = max(1, lags.longest) if start is None else start
        remedy = f"simulation begins inside the table of {len(table)} rows, after at least one row"
        check_number("start", start, low=1, below=len(table) + 1, integer=True, remedy=remedy)
        table[start:, output] = np.nan  # lags of the series are at least one: it is not looked at before it is known
        for t in range(start, len(table)):
            table[t, output] = self.predict(table[max(0, t - lags.longest) : t + 1])[-1]
        return table[:, output]

    def _numeric_table(self, X: Any) -> Floats:
        """Return a copy of a table of numbers in the order of the inputs; those that are not looked at may be NaN."""
        if not is_frame(X):
            return np.array(X, dtype=np.float64)
        table = np.full((X.shape[0], len(self.inputs)), np.nan)
        for j, name in enumerate(self.input_names):
            if name in X.columns and name in {*self.used_inputs, self._program.series}:
                table[:, j] = np.array(X[name], dtype=np.float64)
        return table

    # -- changed copies ------------------------------------------------------------------------------------------------

    def with_facts(self, facts: Mapping[str, Any] | None) -> Predictor:
        """Return a copy that carries facts about the model, which are saved with it.

        Parameters
        ----------
        facts : dict or None
            Plain data: texts, finite numbers, truth values, None, and lists and dicts of these.
        """
        return replace(self, facts=None if facts is None else plain_facts(facts, "facts"))

    def with_fill(self, fill: Mapping[str, Any]) -> Predictor:
        """Return a copy whose inputs take a value where one is missing.

        Parameters
        ----------
        fill : dict
            By the name of an input the number or category that stands in; None makes a missing value an error.
        """
        return replace(self, _program=replace(self._program, reading=self._program.reading.filled(fill)))

    def narrow(self) -> Predictor:
        """Return a copy that takes only the inputs its terms look at, in their order: for arrays and for exports."""
        return replace(self, _program=self._program.narrowed())

    # -- files ---------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain data, which is what its file holds."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "termwise": version("termwise"),
            "predictor": self._program.plain(),
            "facts": self.facts,
        }

    def save(self, path: str | os.PathLike) -> None:
        """Write the model to a JSON file.

        The file holds plain data, every number exact, and can be read by people. It is written beside its place and
        then renamed, so that an interrupted save leaves the former file as it was.

        Parameters
        ----------
        path : str or path
            Where to; `.json` is a good ending.
        """
        write_atomically(path, text_of(self.to_dict()) + "\n")

    def export(self, path: str | os.PathLike, to: str | None = None, **options: Any) -> None:
        """Write the model in another language.

        Parameters
        ----------
        path : str or path
            Where to.
        to : {"onnx", "c", "python", "json"}, default=None
            "onnx": a graph for any ONNX runtime; "c": one C99 source file that needs no library and no memory of its
            own; "python": a module that imports `math` alone; "json": the same as `save`. None: by the ending of the
            path.
        **options : dict
            For "c" and "onnx" `dtype`, "float64" (the default) or "float32"; for "c" `name`, which the functions' names
            begin with.

        Notes
        -----
        In float64 all languages give the predictions of `predict` to 1e-12 of what is added up to them; in float32 to
        about 1e-4 for inputs of ordinary size.

        Python and C refuse what `predict` refuses; in C categories are numbers, which a comment lists. A graph of ONNX
        cannot refuse: where a number is missing the result is NaN, and an unknown category is none of the known ones.
        """
        ending = {suffix: language for language, suffix in LANGUAGES.items()}
        language = ending.get(Path(path).suffix, Path(path).suffix) if to is None else to
        check_choice("to", language, LANGUAGES, remedy=f"or end the path in one of {', '.join(ending)}")
        for name in options:
            if name not in OPTIONS[language]:
                known = ", ".join(OPTIONS[language]) or "none"
                raise TypeError(f"{name} is no option of an export to {language}, which has {known}: leave it out.")
        if language == "json":
            self.save(path)
        else:
            write_atomically(path, import_module(WRITERS[language]).source(self._program, **options))


def load_predictor(path: str | os.PathLike) -> Predictor:
    """Read a model that `Predictor.save` wrote.

    The file is data: nothing in it is executed, and everything is checked. Errors name the file, the place in it and
    the remedy.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    predictor : Predictor
        The model, exact to the bit.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from termwise import BasisRidge, RadialBasis, load_predictor
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> path = os.path.join(tempfile.mkdtemp(), "sine.json")
    >>> BasisRidge(RadialBasis(centers=5)).fit(X, np.sin(X[:, 0])).predictor_.save(path)
    >>> load_predictor(path)
    <Predictor: regression by 5 terms of x0>
    """
    return read_document(path, from_dict)


def from_dict(document: dict[str, Any]) -> Predictor:
    """Return the predictor that a document with a valid header describes."""
    read_dict(document, "the document", ["format", "version", "termwise", "predictor", "facts"])
    read_text(document["termwise"], "termwise")
    facts = document["facts"]
    facts = None if facts is None else plain_facts(facts, "facts")
    return Predictor(Program.read(document["predictor"], "predictor"), facts)


def plain_facts(value: Any, place: str) -> Any:
    """Return a copy of plain data, or raise with the place of what is none."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise wrong(place, "a dict with texts as keys", list(value))
        return {key: plain_facts(one, f"{place}.{key}") for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_facts(one, f"{place}[{i}]") for i, one in enumerate(value)]
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and np.isfinite(value)):
        return value
    raise wrong(place, "a text, a finite number, true, false, null, or a list or dict of these", value)


def precision_of(X: Any) -> Any:
    """Return float32 for a table of float32, else float64."""
    if is_frame(X):
        kinds = {str(X[name].dtype).lower() for name in X.columns}
        numbers = {kind for kind in kinds if "float" in kind or "int" in kind}
        return np.float32 if numbers == {"float32"} else np.float64
    return np.float32 if "float32" in str(getattr(X, "dtype", "")) else np.float64
