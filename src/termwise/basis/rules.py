"""Tree rules: conjunctions of conditions on single inputs, found by boosted regression trees.

Rules of selection, by which the next term is chosen, are in `selection.rules`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import different_rows, row_blocks
from termwise._checks import check_number
from termwise.basis.base import Basis
from termwise.basis.inputs import InputStatistics, input_ranges, required_targets
from termwise.basis.shapes import LINEAR, STEP_ABOVE, STEP_BELOW, distinct_labels
from termwise.basis.trees import BinnedInputs, Split, TreeSettings

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Condition = tuple[int, bool, float]  # an input, whether it must be above the threshold, the threshold
Rule = tuple[Condition, ...]

# Many small steps find more different rules than few large ones. Thresholds between 64 bins of an input are as good as
# more of them, in half of the time: see `benchmarks/tables.py`, whose development half this was chosen on.
LEARNING_RATE, MAX_THRESHOLDS = 0.1, 63


class RuleBasis(Basis):
    """Tree rules: 1 where some inputs lie above or below thresholds, and 0 elsewhere.

    A rule is a conjunction such as `x0 > 3.5 and x2 <= 1 and x4 > 0`. The candidates are the nodes of boosted
    regression trees, fitted to the targets (Friedman and Popescu 2008): they are few, and where the targets change.

    Parameters
    ----------
    n_trees : int, default=100
        Number of trees. Each has up to `2^(max_conditions + 1) - 2` rules; equal ones count once.
    max_conditions : int, default=3
        Depth of the trees, and conditions of a rule at most: from 1 to 4.
    min_count : float, default=5
        Samples on either side of each split of a tree.

    Attributes
    ----------
    inputs_ : ndarray of shape (p, max_conditions)
        Input of each condition of a rule; -1 where it has fewer.
    above_ : ndarray of bool of shape (p, max_conditions)
        Whether the input must be above the threshold; otherwise it must not.
    thresholds_ : ndarray of shape (p, max_conditions)
        Thresholds of the conditions; 0 where there are fewer.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input.
    missing_ : ndarray of bool of shape (d,)
        Inputs with missing values in `fit`, which may have some in `transform`, too.

    See Also
    --------
    AnovaBasis : With `functions=("linear", "step")`, products of two steps, at knots of every input.

    Notes
    -----
    Use it where the targets depend on thresholds of several inputs together, with an estimator that selects among the
    rules, and with linear terms beside it, as in the example: rules alone describe a slope by a staircase.
    `TermwiseRegressor` does so where gradient boosting is accurate, and selects the rules that reproduce boosting.

    Where an input is missing (NaN) no condition on it holds. Rules that are equal, or each other's complement, on all
    training samples are included once. The trees are fitted to the same targets as the model: judge a model of rules by
    cross-validation that fits the basis in each fold, not by leave-one-out with the basis given.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import AnovaBasis, ForwardRegressor, RuleBasis, UnionBasis
    >>> X = np.random.default_rng(0).integers(0, 9, size=(400, 4))
    >>> y = X[:, 3] + 5.0 * ((X[:, 0] > 3) & (X[:, 1] <= 5) & (X[:, 2] > 2))
    >>> basis = UnionBasis([AnovaBasis(n_centers=0, order=1), RuleBasis()])
    >>> list(ForwardRegressor(basis, max_terms=2).fit(X, y).get_feature_names_out())
    ['x3', 'x0 > 3.5 and x1 <= 5.5 and x2 > 2.5']
    """

    _per_term = ("inputs_", "above_", "thresholds_")
    allows_missing = True

    def __init__(self, n_trees: int = 100, max_conditions: int = 3, min_count: float = 5) -> None:
        self.n_trees = n_trees
        self.max_conditions = max_conditions
        self.min_count = min_count

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        check_number("n_trees", self.n_trees, low=1, integer=True, remedy="100 suits most data")
        check_number("max_conditions", self.max_conditions, low=1, below=5, integer=True, remedy="3 suits most data")
        check_number("min_count", self.min_count, low=0, remedy="5 suits most data")
        Y = required_targets("RuleBasis", y, X, remedy="use AnovaBasis(functions=('linear', 'step'))")
        self.ranges_ = InputStatistics.from_samples(X).ranges if self.missing_.any() else input_ranges(X)
        X = X.astype(np.float64, copy=False)
        trees = TreeSettings(self.n_trees, LEARNING_RATE, self.max_conditions, MAX_THRESHOLDS, self.min_count)
        binned = BinnedInputs.from_samples(X, Y, trees)
        rules: dict[Rule, None] = {}  # in the order in which they are found
        for levels in binned.boost():
            rules |= dict.fromkeys(rules_of_tree(levels, binned))
        shape = len(rules), self.max_conditions
        self.inputs_, self.above_ = np.full(shape, -1), np.zeros(shape, dtype=bool)
        self.thresholds_ = np.zeros(shape)
        for i, rule in enumerate(rules):
            inputs, above, thresholds = zip(*rule, strict=True)
            self.inputs_[i, : len(rule)], self.above_[i, : len(rule)] = inputs, above
            self.thresholds_[i, : len(rule)] = thresholds
        # Of rules that are equal or complements on the samples the first is kept, and none that are constant.
        holds = self._holds(X[different_rows(X)])
        counts, bits = holds.sum(axis=0), np.packbits(holds ^ holds[:1], axis=0)  # of complements, one holds for row 0
        first = np.unique(bits, axis=1, return_index=True)[1]
        self._restrict(np.intersect1d(first, np.flatnonzero((counts > 0) & (counts < len(holds)))))

    def conditions(self) -> tuple[Indices, NDArray[np.bool_], Floats, Indices]:
        """Return the inputs, directions and thresholds of the distinct conditions, and those of each rule, -1 for none.

        The last has the shape of `inputs_`.
        """
        present = self.inputs_ >= 0
        columns = np.column_stack([self.inputs_[present], self.above_[present], self.thresholds_[present]])
        distinct, places = np.unique(columns, axis=0, return_inverse=True)
        numbers = np.full(self.inputs_.shape, -1)
        numbers[present] = places.ravel()
        inputs, above, thresholds = distinct.T
        return inputs.astype(np.intp), above.astype(bool), thresholds, numbers

    def _holds(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rules hold for which samples, (n, p)."""
        inputs, above, thresholds, numbers = self.conditions()
        found = np.ones((len(X), len(numbers)), dtype=bool)
        for rows in row_blocks(len(X), len(inputs)):
            Z = X[rows][:, inputs]
            met = np.ones((len(Z), len(inputs) + 1), dtype=bool)  # the last one holds always, in place of none
            np.logical_and((thresholds < Z) == above, ~np.isnan(Z), out=met[:, :-1])
            for own in numbers.T:
                found[rows] &= met[:, own]
        return found

    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the design matrix of valid inputs.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        return self._holds(X).astype(X.dtype)

    def frozen(self) -> list[dict[str, NDArray[Any]]]:
        """Return the parameters of products of steps, and of products of these where rules have three conditions.

        Each has the keys of `AnovaBasis.frozen`, but for `clipped`: steps are constant outside the training range.
        """
        inputs, above, thresholds, numbers = self.conditions()
        pairs = np.full((2, len(numbers), 2), -1)  # the conditions of the first and of the second factor of each rule
        for k, own in enumerate(numbers.T):
            pairs[k // 2, :, k % 2] = own
        factors, places = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
        first, second = places.reshape(2, -1)
        some = np.flatnonzero(factors[:, 0] >= 0)  # the others are the factor of rules that have no second one
        renumbered = np.full(len(factors), -1)
        renumbered[some] = np.arange(len(some))
        steps = {
            "columns": inputs,
            "places": thresholds,
            "units": np.ones(len(inputs)),
            "bumps": np.where(above, STEP_ABOVE, STEP_BELOW),
            "first": factors[some, 0],
            "second": factors[some, 1],
        }
        products = {
            "columns": np.arange(len(some)),
            "places": np.zeros(len(some)),
            "units": np.ones(len(some)),
            "bumps": np.full(len(some), LINEAR),
            "first": renumbered[first],
            "second": renumbered[second],
        }
        return [steps, products]

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        return [tuple(sorted({j for j in row if j >= 0})) for row in self.inputs_[indices].tolist()]

    def _names(self, inputs: list[str]) -> list[str]:
        labels: dict[tuple[int, float], str] = {}
        for j in np.unique(self.inputs_[self.inputs_ >= 0]).tolist():
            thresholds = np.unique(self.thresholds_[self.inputs_ == j])
            labels |= {(j, t): label for t, label in zip(thresholds.tolist(), distinct_labels(thresholds), strict=True)}
        rows = zip(self.inputs_.tolist(), self.above_.tolist(), self.thresholds_.tolist(), strict=True)
        return [
            " and ".join(
                f"{inputs[j]} {'>' if above else '<='} {labels[j, t]}"
                for j, above, t in zip(*row, strict=True)
                if j >= 0
            )
            for row in rows
        ]


def rules_of_tree(levels: list[Split], binned: BinnedInputs) -> list[Rule]:
    """Return the rules of all nodes of a tree but its root, each with its conditions in ascending order."""
    found: list[Rule] = []
    nodes: list[Rule | None] = [()]  # None below a node that stays whole
    for split in levels:
        children: list[Rule | None] = []
        for node, j, k, gain in zip(nodes, split.inputs.tolist(), split.bins.tolist(), split.gains, strict=True):
            if node is None or gain <= 0:
                children += [None, None]
                continue
            column, threshold = int(binned.columns[j]), float(binned.thresholds[j][k])
            both = [conjunction(node, (column, above, threshold)) for above in (False, True)]
            children += both
            found += both
        nodes = children
    return found


def conjunction(rule: Rule, condition: Condition) -> Rule:
    """Return a rule with one more condition; of two on the same side of an input only the stricter one is kept."""
    j, above, threshold = condition
    for other in rule:
        if other[:2] == (j, above):
            rule = tuple(kept for kept in rule if kept is not other)
            threshold = max(threshold, other[2]) if above else min(threshold, other[2])
    return tuple(sorted([*rule, (j, above, threshold)]))
