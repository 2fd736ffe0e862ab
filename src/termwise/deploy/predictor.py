"""`Predictor`: a fitted model without its data, to keep, to send and to run elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils.metaestimators import available_if

from termwise._checks import check_bool, check_number, is_frame
from termwise.deploy import document
from termwise.deploy.bounds import BoxBounds
from termwise.deploy.exports import Exports
from termwise.deploy.facts import check_facts
from termwise.deploy.freeze import freeze
from termwise.deploy.gradient import gradient
from termwise.deploy.inputs import Input
from termwise.deploy.program import Program
from termwise.deploy.single_row import SingleRow
from termwise.linalg.conformal import check_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(Exports):
    """A fitted model without its table of data: the parameters needed to predict.

    Every fitted estimator has one, `estimator.predictor_`; `from_estimator` makes one of a pipeline too. It holds the
    selected terms only, can be saved as one JSON file of plain data, and exported to Python, C, ONNX, SQL, SymPy
    or LaTeX.

    Attributes
    ----------
    task : {"regression", "classification"}
        Kind of prediction.
    inputs : tuple of Input
        For each input its `name`, `kind` ("number", "category" or "date"), `categories` (None for others), `missing`
        (whether it may be missing), `fill` (the replacement of a missing value; None: it stays missing, or is an error)
        and `unseen` (position of an unknown category; None: it is an error).
    input_names : list of str
        Their names.
    used_inputs : list of str
        Names of those used by the terms; a data frame need not have the others.
    term_names : list of str
        Names of the terms.
    n_terms : int
        Their number k.
    weights : ndarray of shape (q, k)
        Their weights for each of q outputs.
    intercept : ndarray of shape (q,)
        The intercepts.
    one_output : bool
        Whether the targets were a vector, as predictions then are.
    limits : ndarray of shape (2, q) or None
        The lowest and the highest outputs, to which the sum of the terms and the intercept is clipped; None: any.
    classes : list or None
        The labels of a classifier.
    link : {"identity", "log", "sorted"}
        How the outputs of a regression become predictions: as they are, by the exponential function, or sorted
        (several quantiles).
    series : str or None
        The input that a model on a `LagBasis` predicts from its past values.
    n_past : int or None
        How many rows before its own a prediction of a model on a `LagBasis` reads; None for other models.
    facts : dict or None
        Metadata of the model, as collected by `termwise.diagnostics.facts`; stored in the file.

    See Also
    --------
    load_predictor : Read a saved model.

    Notes
    -----
    Predictions are those of the estimator, except for rounding, computed in float64. Inputs are read differently:
    columns of a data frame are found by name in any order, and dates may be strings in the ISO 8601 format.

    Inputs that were missing in some samples of the fit may be missing (None, NaN or null); in others a missing value is
    an error. A category that the fit did not have has none of the effects of the others: `count_unseen` counts these.

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
    task: str = field(init=False)
    inputs: tuple[Input, ...] = field(init=False)
    input_names: list[str] = field(init=False)
    used_inputs: list[str] = field(init=False)
    term_names: list[str] = field(init=False)
    n_terms: int = field(init=False)
    weights: Floats = field(init=False)
    intercept: Floats = field(init=False)
    one_output: bool = field(init=False)
    limits: Floats | None = field(init=False)
    classes: list[Any] | None = field(init=False)
    link: str = field(init=False)
    series: str | None = field(init=False)
    n_past: int | None = field(init=False)

    def __post_init__(self) -> None:
        program = self._program
        schema, linear, labels = program.schema, program.linear, program.labels
        attributes = {
            "task": "regression" if labels is None else "classification",
            "inputs": schema.inputs,
            "input_names": list(schema.names),
            "used_inputs": [schema.names[j] for j in schema.used],
            "term_names": list(linear.names),
            "n_terms": len(linear.names),
            "weights": linear.weights.copy(),
            "intercept": linear.intercept.copy(),
            "one_output": linear.one_output,
            "limits": None if linear.limits is None else linear.limits.copy(),
            "classes": None if labels is None else list(labels.classes),
            "link": program.link,
            "series": program.series,
            "n_past": None if program.lags is None else program.lags.longest,
        }
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_estimator(cls, estimator: Any) -> Predictor:
        """Freeze a fitted model.

        Parameters
        ----------
        estimator : fitted estimator or Pipeline
            One of termwise's estimators, or a pipeline of scikit-learn that ends in one, with scalers, selectors of
            columns, `TableEncoder` or bases in front. The error for an unsupported one lists those supported.

        Returns
        -------
        predictor : Predictor
            The model as it is now: fitting the estimator again does not change it.
        """
        return cls(freeze(estimator))

    def __repr__(self) -> str:
        names = ", ".join(self.used_inputs[:4]) + ", ..." * (len(self.used_inputs) > 4)
        return f"<Predictor: {self.task} by {self.n_terms} terms of {names or 'nothing'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predictor) and self.to_dict() == other.to_dict()

    # -- predicting ----------------------------------------------------------------------------------------------------

    def predict(self, X: Any, return_clipped: bool = False) -> Any:
        """Predict targets or labels.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs. Columns of a pandas or polars frame are found by name, others are ignored; those of an array are in
            the order of the fit.
        return_clipped : bool, default=False
            Also return which rows have an input outside the range of the training data, for which a term was evaluated
            at the boundary of that range; `clipped` tells which inputs.

        Returns
        -------
        y : ndarray of shape (m,) or (m, q)
            Predictions.
        clipped : ndarray of bool of shape (m,)
            Rows with a clipped input; only with `return_clipped=True`.
        """
        if return_clipped:
            return self.predict(X), self.clipped(X).any(axis=1)
        if self.classes is None:
            return self._shaped(self._program.respond(self._program.outputs(X), _dtype(X)), X)
        outputs = self._program.outputs(X)
        number = (outputs[:, 0] >= 0).astype(np.intp) if outputs.shape[1] == 1 else outputs.argmax(axis=1)
        return np.asarray(self.classes)[number]

    def predict_one(self, x: Any) -> Any:
        """Predict the target or the label of one sample, in microseconds.

        `predict` of a table of one row, without its overhead: the first call prepares what the others need.

        Parameters
        ----------
        x : sequence or mapping
            The sample: values in the order of `inputs`, such as a list or an array of shape (d,), or by their names,
            such as a dict, of which those in `used_inputs` are read.

        Returns
        -------
        y : float, ndarray of shape (q,) or label
            The prediction, computed in float64: a number, of several outputs an array, of a classifier a label.

        Examples
        --------
        >>> import numpy as np
        >>> from termwise import BasisRidge
        >>> X = np.arange(8.0).reshape(4, 2) ** 2
        >>> predictor = BasisRidge(alpha=0).fit(X, X @ [1.0, 2.0] + 3).predictor_
        >>> round(predictor.predict_one([1.0, 2.0]), 6)
        8.0
        >>> round(predictor.predict_one({"x1": 2.0, "x0": 1.0}), 6)
        8.0
        """
        outputs = self._single_row.outputs(x)
        if self.classes is not None:
            return self.classes[(outputs >= 0) if isinstance(outputs, float) else int(outputs.argmax())]
        if self.link == "identity":
            return outputs if self.one_output else np.atleast_1d(outputs)
        responses = self._program.respond(np.atleast_1d(outputs))
        return float(responses[0]) if self.one_output else responses

    @available_if(lambda self: self._program.labels is not None and self._program.labels.sharpness is not None)
    def predict_proba_one(self, x: Any) -> Floats:
        """Return the probability of each class for one sample, where the estimator has them.

        Parameters
        ----------
        x : sequence or mapping
            The sample, as in `predict_one`.

        Returns
        -------
        probabilities : ndarray of shape (n_classes,)
            In the order of `classes`.
        """
        return self._probabilities(np.atleast_2d(self._single_row.outputs(x)))[0]

    @cached_property
    def _single_row(self) -> SingleRow:
        """The evaluation of one sample."""
        return SingleRow(self._program)

    def clipped(self, X: Any) -> NDArray[np.bool_]:
        """Return which inputs of every row lie outside the range of the training data and are clipped for a term.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs.

        Returns
        -------
        clipped : ndarray of bool of shape (m, d)
            One column for each of `inputs`; that of an input used by linear terms alone is False.
        """
        return self._program.clipped(X)

    def terms(self, X: Any) -> Floats:
        """Return the values of the terms, whose weighted sum is the output.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs.

        Returns
        -------
        terms : ndarray of shape (m, k)
            One column for each of `term_names`.
        """
        return self._program.terms(X)

    def count_unseen(self, X: Any) -> dict[str, int]:
        """Return how many rows have a category that the fit did not have, by the names of inputs that have some.

        Parameters
        ----------
        X : array-like or data frame of shape (m, d)
            Inputs.
        """
        return self._program.schema.count_unseen(X)

    @available_if(lambda self: self._program.labels is not None)
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the output of a classifier: positive for the second class, or one column per class.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs.
        """
        return self.linear_predictor(X)

    def linear_predictor(self, X: Any) -> NDArray[Any]:
        """Return the weighted sum of the terms and the intercept: what `link` is applied to in predictions.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs.
        """
        return self._shaped(self._program.outputs(X), X)

    @available_if(lambda self: self._program.labels is not None and self._program.labels.sharpness is not None)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each class, where the estimator has it.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs.
        """
        return self._probabilities(self._program.outputs(X)).astype(_dtype(X), copy=False)

    def _probabilities(self, outputs: Floats) -> Floats:
        """Return the probabilities of classes for rows of scores."""
        assert self._program.labels is not None
        both = np.column_stack([-outputs, outputs]) if outputs.shape[1] == 1 else outputs  # against and for the second
        return softmax((self._program.labels.sharpness or 1.0) * both, axis=1)

    def _has_intervals(self) -> bool:
        """Whether a model has intervals; raise with the remedy if it has none."""
        if not self._program.folds or self.task != "regression" or self.link == "sorted":
            raise AttributeError(
                "predict_interval requires a regression with fold models, got one without: fit with selection_cv=10 "
                "and save it again."
            )
        return True

    @available_if(_has_intervals)
    def predict_interval(
        self, X: Any, coverage: float = 0.9, side: str = "two-sided", normalised: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Prediction intervals for new observations by CV+, of a model with fold models.

        For a fold with more than 500 residuals, 500 quantiles are kept.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs; the models of the folds may use other columns than `used_inputs`.
        coverage : float, default=0.9
            Nominal coverage, between 0 and 1.
        side : {"two-sided", "lower", "upper"}, default="two-sided"
            "lower" and "upper" give a bound with the coverage asked for; the other end is infinite.
        normalised : bool, default=False
            Whether the width varies with the size of the residuals.

        Returns
        -------
        lower, upper : ndarrays of shape (m,) or (m, q)
            Ends of the intervals, those of the estimator.
        """
        check_interval(coverage, side, normalised)
        ends = self._program.interval(X, coverage, side, normalised).astype(_dtype(X), copy=False)
        lower, upper = ends[..., 0] if self.one_output else ends
        return lower, upper

    def predict_folds(self, X: Any) -> Floats:
        """Return the predictions of the models fitted without each of K folds, whose spread is their uncertainty.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs; the models of the folds may use other columns than `used_inputs`.

        Returns
        -------
        predictions : ndarray of shape (K, m, q)
            One table for each fold; K is zero for a model without fold models.
        """
        found = [fold.evaluate(X)[0] for fold in self._program.folds]
        return np.stack(found) if found else np.empty((0, np.shape(X)[0], len(self.intercept)))

    def _shaped(self, outputs: Floats, X: Any) -> NDArray[Any]:
        """Return outputs in the precision of the inputs, as a vector if the targets were one."""
        outputs = outputs.astype(_dtype(X), copy=False)
        return outputs[:, 0] if self.one_output else outputs

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
        return self._program.free_run(X, start)

    def gradient(self, X: Any) -> Floats:
        """Return the derivatives of the predictions by the inputs.

        Of a classifier, they are those of `decision_function`. They are exact: the formulas of the terms are
        differentiated. An input outside the range of the training data, for which terms are evaluated at the boundary
        of that range, has no effect on them there, and at one of its `limits` a prediction has a gradient of zero. At
        kinks, as at the end of that range, it is the derivative from the right.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (m, d)
            Inputs.

        Returns
        -------
        gradient : ndarray of shape (m, d) or (m, q, d)
            One column for each of `inputs`, with zeros for those that no term uses and where they are missing, and NaN
            for categories and dates.

        Examples
        --------
        >>> import numpy as np
        >>> from termwise import BasisRidge
        >>> X = np.random.default_rng(0).normal(size=(20, 2))
        >>> BasisRidge(alpha=0).fit(X, X @ [1.0, 3.0]).predictor_.gradient(X[:2]).round(6)
        array([[1., 3.],
               [1., 3.]])
        """
        found = gradient(self._program, X)
        return found[:, 0] if self.one_output else found

    def bounds(
        self, box: Any, tol: float = 1e-3, max_boxes: int = 2000, return_points: bool = False
    ) -> tuple[Any, ...]:
        """Return guaranteed lower and upper bounds of the predictions over a box, of a classifier of the scores.

        No prediction for inputs in the box is lower or higher, except for rounding. The bounds are those of interval
        arithmetic, tightened by branch and bound: the box is divided until they differ from predictions that were found
        by at most `tol` of their range, or until there are `max_boxes` parts. Groups of terms without inputs in common
        are bounded one by one, so that additive models of many inputs are cheap; terms of many inputs at once, such as
        Gaussians of ten inputs with large weights, may have wide bounds.

        Parameters
        ----------
        box : mapping or sequence
            For each input a pair (low, high), or one value, by its name; or a sequence in the order of `inputs`.
            Categories have one value. Inputs that no term uses may be left out, or be None.
        tol : float, default=1e-3
            Tolerance, as a share of the range of each group of terms.
        max_boxes : int, default=2000
            Parts of the box, for each output, end and group of terms.
        return_points : bool, default=False
            Also return where the lowest and the highest prediction were found.

        Returns
        -------
        lower, upper : float or ndarrays of shape (q,)
            The bounds.
        at_lowest, at_highest : ndarrays of shape (d,) or (q, d)
            Inputs of the lowest and of the highest prediction found, numbers of categories among them; those that no
            term uses are in the middle of the box, or zero if it does not have them. Only with `return_points=True`.

        Examples
        --------
        >>> import numpy as np
        >>> from termwise import BasisRidge
        >>> X = np.random.default_rng(0).normal(size=(20, 2))
        >>> predictor = BasisRidge(alpha=0).fit(X, X @ [1.0, 3.0]).predictor_
        >>> lower, upper = predictor.bounds([(0, 1), (-1, 1)])
        >>> round(lower, 6), round(upper, 6)
        (-3.0, 4.0)
        """
        check_number("tol", tol, above=0, below=1, remedy="1e-3 is a thousandth of the range of the predictions")
        check_number("max_boxes", max_boxes, low=1, integer=True, remedy="2000 takes seconds")
        check_bool("return_points", return_points, remedy="True returns inputs of extreme predictions too")
        found = BoxBounds(self._exported, box, tol, int(max_boxes)).find()[: 4 if return_points else 2]
        if not self.one_output:
            return found
        return (float(found[0][0]), float(found[1][0]), *(points[0] for points in found[2:]))

    # -- changed copies ------------------------------------------------------------------------------------------------

    def with_facts(self, facts: Mapping[str, Any] | None) -> Predictor:
        """Return a copy with metadata about the model, which are saved with it.

        Parameters
        ----------
        facts : dict or None
            Plain data: strings, finite numbers, booleans, None, and lists and dicts of these. Entries with the names
            of `termwise.diagnostics.facts` must have their form.
        """
        return replace(self, facts=None if facts is None else check_facts(facts))

    def with_fill(self, fill: Mapping[str, Any]) -> Predictor:
        """Return a copy that replaces missing values of its inputs.

        Parameters
        ----------
        fill : dict
            By the name of an input the number or category that replaces a missing value; None makes that an error.
        """
        return replace(self, _program=self._program.with_fill(fill))

    def narrow(self) -> Predictor:
        """Return a copy with only the inputs used by its terms, in their order: for arrays and for exports.

        It has no intervals: models without a fold may use other inputs.
        """
        program = self._program
        used = program.schema.used or [0]  # one stays, as every table has a column
        inputs = tuple(program.schema.inputs[j] for j in used)
        schema = replace(program.schema, inputs=inputs, columns=np.searchsorted(used, program.schema.columns))
        series = program.series if program.series in schema.names else None
        return replace(self, _program=replace(program, schema=schema, series=series, folds=()))


def load_predictor(path: str | os.PathLike[str]) -> Predictor:
    """Read a model that `Predictor.save` wrote.

    The file is data: nothing in it is executed, and everything is validated. A file that was altered has another
    content than its checksum and is refused. Errors name the file, the place in it and the remedy.

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
    data = document.read_document(path)
    try:
        document.check_document(data)
        facts = None if data["facts"] is None else check_facts(data["facts"])
        return Predictor(Program.from_plain(data["predictor"], "predictor"), facts)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is no valid model: {error}. The file was damaged or changed by hand: save the model again."
        ) from None


def _dtype(X: Any) -> Any:
    """Return float32 for a table of float32, else float64."""
    if is_frame(X):
        kinds = {str(X[name].dtype).lower() for name in X.columns}
        numbers = {kind for kind in kinds if "float" in kind or "int" in kind}
        return np.float32 if numbers == {"float32"} else np.float64
    if isinstance(X, np.ndarray):
        return np.float32 if X.dtype == np.float32 else np.float64
    return np.float32 if "float32" in str(getattr(X, "dtype", "")) else np.float64
