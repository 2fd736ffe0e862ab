"""The search over dictionaries and targets: which are cross-validated, in how many folds, and with how many terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, islice
from threading import Lock
from typing import Any

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from termwise.basis import Basis
from termwise.linalg.losses import Loss
from termwise.recipe.cross_validation import (
    CrossValidatedPath,
    CrossValidationJob,
    Fitting,
    Penalised,
    Target,
    cross_validate,
    extend,
    n_parallel_folds,
)
from termwise.recipe.dictionaries import DICTIONARIES, Samples, logarithms_of, without_logarithms
from termwise.recipe.folds import Folds
from termwise.recipe.penalties import clearly_nonlinear, penalty_of, promising, tries_penalties, try_penalties
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.size import RecipeOptions
from termwise.recipe.targets import REFERENCES, Reference, with_more_trees
from termwise.recipe.trials import Objective, Trial, eliminate, lowest_error, most_accurate_of

Numbers = Sequence[int]


@dataclass(eq=False)
class Search:
    """Cross-validation of dictionaries and targets, with paths that grow while more terms improve the best model."""

    bases: dict[str, Basis]  # not fitted
    folds: list[Folds]  # one for each repeat
    settings: RecipeSettings
    max_terms: int  # maximum length of the paths
    after_step: Callable[[], object]  # called after each cross-validation
    report: Callable[[str], object] | None  # called with a line for each trial
    labels: bool
    fitting: Fitting
    groups: NDArray[np.intp]  # (d,), the column of the table that each input comes from
    reference: Any = None  # the reference model, not fitted; the default one may get more trees
    link: str = "identity"  # "log": the targets of the folds are logarithms
    loss: Loss | None = None  # of models for the data themselves; None: the squared error
    fitted_references: dict[tuple[int, int], Reference] = field(default_factory=dict)  # by identity and number of folds
    training: Any = field(default_factory=Lock)  # held while a reference model is trained
    eliminated: list[Trial] = field(default_factory=list)  # trials that were clearly worse in the first folds

    @property
    def n_threads(self) -> int:
        """Number of folds fitted in parallel."""
        n, d = self.folds[0].X.shape
        p = max(DICTIONARIES[name].stored_columns(basis, d, n) for name, basis in self.bases.items())
        return n_parallel_folds(n, p, self.settings)

    @cached_property
    def first_folds(self) -> list[int]:
        """Numbers of the folds of the first cross-validation in which all trials take part."""
        numbers, settings = np.unique(self.folds[0].fold).tolist(), self.settings
        return numbers[: settings.race_folds] if len(self.folds[0].X) >= settings.race_rows else numbers

    @property
    def rest_folds(self) -> list[int]:
        """Numbers of the other folds, in which clearly worse trials do not take part."""
        return [number for number in np.unique(self.folds[0].fold).tolist() if number not in self.first_folds]

    # -- the reference model -------------------------------------------------------------------------------------------

    def fold_reference(self, folds: Folds, number: int) -> Reference:
        """Return the predictions of the reference model, trained without a fold.

        One model is trained at a time: scikit-learn resets the warning filters of the whole process while it bins the
        inputs, so that models trained concurrently raise spurious warnings.
        """
        X, Y, weight, fold = folds
        train = fold != number
        with self.training:
            if (id(folds), number) not in self.fitted_references:
                samples = Samples(X[train], Y[train], weight[train])
                self.fitted_references[id(folds), number] = Reference.fit(
                    self.reference, samples, self.groups, self.labels, self.settings, X[~train]
                )
            return self.fitted_references[id(folds), number]

    def favours_boosting(self, trials: Sequence[Trial]) -> bool:
        """Whether the reference model is about as accurate as the best trial, which suggests kinks or thresholds.

        Where a linear model is about the best, the reference must be more accurate.
        """
        if self.reference is None:
            return False
        numbers, settings = self.first_folds, self.settings
        first = numbers[: settings.race_folds]
        ratio, linear = self.boosting_ratio(trials, first)
        if ratio > (settings.rough_error if linear else settings.clearly_smooth):
            return False  # the other folds would not change this
        least = ratio * min(self.gain_of_trees(first), 1.0) ** settings.boosting_doublings
        if first == numbers and least > (1.0 if linear else settings.rough_error):
            return False  # nor would more trees, which gain less and less
        self.choose_trees()
        ratio, linear = self.boosting_ratio(trials, numbers)
        return ratio <= (1.0 if linear else settings.rough_error)

    def boosting_ratio(self, trials: Sequence[Trial], numbers: Numbers) -> tuple[float, bool]:
        """Return the error of the reference model in some folds as a multiple of that of the best trial.

        Also return whether a linear model is not clearly worse than that one.
        """
        rivals = [one.on_rows(np.isin(self.folds[0].fold, numbers)) for one in trials]
        error = self.reference_error(rivals[0].loss, numbers)
        best = most_accurate_of(rivals)
        linear = any(one.name == "linear" and not one.is_worse(best, self.settings.simpler_se) for one in rivals)
        return error / max(float(best.errors.min()), np.finfo(np.float64).tiny), linear

    def choose_trees(self) -> None:
        """Double the number of boosted trees as long as the second half of them lowers the error clearly.

        The error is that in the first folds. Trees for rules are doubled as well: there is more to reproduce.
        """
        settings, numbers = self.settings, self.first_folds[: self.settings.race_folds]
        for _ in range(settings.boosting_doublings):
            if self.gain_of_trees(numbers) > 1 - settings.boosting_gain:
                return
            self.reference = with_more_trees(self.reference, 2)
            self.fitted_references.clear()
            self.bases |= {
                name: more(self.bases[name], 2)
                for name in self.bases
                if (more := DICTIONARIES[name].with_more_trees) is not None
            }

    def gain_of_trees(self, numbers: Numbers) -> float:
        """Return the error of the reference model in some folds over that of the first half of its trees.

        1 for an estimator that is given, which is not tuned.
        """
        if any(self.fold_reference(self.folds[0], number).halfway is None for number in numbers):
            return 1.0
        half, whole = (self.reference_error(self.loss, numbers, halfway) for halfway in (True, False))
        return whole / max(half, np.finfo(np.float64).tiny)

    def reference_error(self, loss: Loss | None, numbers: Numbers, halfway: bool = False) -> float:
        """Return the error of the reference model in some folds, or of the first half of its trees."""
        folds = self.folds[0]
        predictions = np.repeat(folds.Y.mean(axis=0, keepdims=True), len(folds.Y), axis=0)  # of the other folds
        for number in numbers:
            reference = self.fold_reference(folds, number)
            predictions[folds.fold == number] = reference.halfway if halfway else reference.held_out
        if loss is not None and loss.link == "log" and not self.labels:
            predictions = np.log(np.maximum(predictions, folds.Y.min(where=folds.Y > 0, initial=1.0)))
        trial = Trial("", "boosting", [], folds.Y, folds.sample_weight, self.labels, loss=loss, link=self.link)
        some = trial.on_rows(np.isin(folds.fold, numbers))
        return float((some.loss_of(predictions[None]) @ some.share)[0])

    def objectives_of(self, name: str, targets: Sequence[str]) -> list[Objective]:
        """Return the targets that are tried with a dictionary: where there are many, only those that suit it."""
        dictionary, alone = DICTIONARIES[name], len(self.bases) == 1
        reproduces = dictionary.reproduces and dictionary.replaced_by not in self.bases
        suits = {True: reproduces or alone, False: dictionary.fits or alone}
        return [Objective(target) for target in targets if suits[target in REFERENCES]]

    # -- trials --------------------------------------------------------------------------------------------------------

    def try_dictionaries(
        self,
        wanted: Mapping[str, Sequence[Objective]],
        lengths: Mapping[str, int],
        folds: Folds,
        numbers: Numbers | None = None,
        before: Sequence[Trial] = (),
    ) -> Iterator[tuple[str, list[Trial]]]:
        """Cross-validate dictionaries for what is wanted of each, in some folds; yield names and trials.

        The last dictionaries, which take most time, are fitted first: threads that are done with them share the others.
        Paths of a dictionary have at most as many terms as its length. Dictionaries of trials `before`, in the same
        folds, are not fitted again.
        """
        numbers = np.unique(folds.fold).tolist() if numbers is None else numbers
        tries, fitted = [], {trial.name: trial.repeats[0].paths for trial in before}
        slowest_first = dict([*wanted.items()][::-1])
        for name, objectives in slowest_first.items():
            some = {number: [self.target_of(one, folds, number) for one in objectives] for number in numbers}
            length = min(lengths[name], self.max_terms)
            tries.append(CrossValidationJob(self.bases[name], folds, length, some, fitted.get(name, ())))
        found = cross_validate(tries, self.fitting, self.n_threads)
        for name, objectives in slowest_first.items():
            (paths,) = islice(found, 1)
            self.after_step()
            yield name, [
                Trial(name, target, [path], folds.Y, folds.sample_weight, self.labels,
                      loss=self.loss if target == "data" else None, alpha=alpha, link=self.link)
                for (target, alpha), path in zip(objectives, paths, strict=True)
            ]  # fmt: skip

    def target_of(self, objective: Objective, folds: Folds, number: int) -> Target:
        """Return what terms are selected for without a fold; a reference model is trained when it is needed."""
        if objective.target in REFERENCES:
            return partial(self.fold_reference, folds, number)
        if objective.target == "data":
            return Penalised(self.loss, penalty_of(objective, self.loss, self.settings))
        return objective.target

    def race(
        self, wanted: Mapping[str, Sequence[Objective]], max_terms: int, rivals: Sequence[Trial] = ()
    ) -> list[Trial]:
        """Cross-validate dictionaries for the first time; those that are clearly worse in the first folds are dropped.

        Trials are compared with each other and with `rivals`.
        """
        return self.finish(self.start(wanted, max_terms, rivals))

    def start(
        self,
        wanted: Mapping[str, Sequence[Objective]],
        max_terms: int,
        rivals: Sequence[Trial] = (),
        before: Sequence[Trial] = (),
    ) -> list[Trial]:
        """Cross-validate dictionaries in the first folds; return the trials that are not clearly worse than others.

        Paths that have their smallest error early are not continued to `max_terms`. Trials are compared with each other
        and with `rivals`; what is dropped is in `eliminated`. Dictionaries of trials `before` are not fitted again.
        """
        (folds, *_), first, settings = self.folds, self.first_folds, self.settings
        if not self.rest_folds:
            lengths = dict.fromkeys(wanted, max_terms)
            return self.reported(in_order(wanted, self.try_dictionaries(wanted, lengths, folds)))
        rows, short = np.isin(folds.fold, first), max(1, min(max_terms, self.max_terms) // 2)

        def grown(trial: Trial) -> Trial:
            longer = trial.on_rows(rows).improves(settings.growth_share)
            return (self.extended(trial, max_terms) if longer else trial).on_rows(rows)

        found = self.try_dictionaries(wanted, dict.fromkeys(wanted, short), folds, first, before)
        started = in_order(wanted, ((name, [grown(trial) for trial in trials]) for name, trials in found))
        others = [one.on_rows(rows) for one in rivals]
        if lowest_error([one for one in others if one.link != self.link]) <= lowest_error(started):
            self.eliminated.extend(self.reported(started))  # another link is better
            return []
        kept = eliminate([*started, *others], settings.elimination_se, settings.simpler_se)
        return self.keep(kept, started)

    def keep(self, kept: Sequence[Trial], started: list[Trial]) -> list[Trial]:
        """Return the trials of the first folds that are among those kept; report the others, which are eliminated."""
        numbers = set(map(id, kept))
        self.eliminated.extend(self.reported([trial for trial in started if id(trial) not in numbers]))
        return [trial for trial in started if id(trial) in numbers]

    def finish(self, started: list[Trial]) -> list[Trial]:
        """Cross-validate trials of the first folds in the others too, unless they are clearly worse than each other.

        Nonlinear models must also have a chance to be clearly better than linear ones.
        """
        if not (self.rest_folds and started):
            return started
        going = eliminate(started, self.settings.elimination_se, self.settings.simpler_se)
        going, found = self.keep(promising(self, going), started), []
        for trial, other in zip(*self.cross_validated_again(going, self.folds[0], self.rest_folds), strict=True):
            paths = trial.repeats[0].paths + other.repeats[0].paths
            found.append(replace(other, repeats=[CrossValidatedPath(paths, len(trial.losses) - 1)]))
        return self.reported(found)

    def cross_validated_again(
        self, trials: list[Trial], folds: Folds, numbers: Numbers | None = None
    ) -> tuple[list[Trial], list[Trial]]:
        """Return trials, ordered by dictionary, and the same in other folds; a dictionary is fitted once in each.

        Paths of the second may be longer: those of one dictionary are as long as the longest of them.
        """
        wanted, lengths = dict[str, list[Objective]](), dict[str, int]()
        for trial in trials:
            wanted.setdefault(trial.name, []).append(trial.objective)
            lengths[trial.name] = max(lengths.get(trial.name, 0), len(trial.losses) - 1)
        ordered = [trial for name in wanted for trial in trials if trial.name == name]
        return ordered, in_order(wanted, self.try_dictionaries(wanted, lengths, folds, numbers))

    def reported(self, trials: list[Trial]) -> list[Trial]:
        """Report the smallest error of each trial, and return the trials."""
        if self.report is not None:
            for trial in trials:
                k = int(trial.errors.argmin())
                unit = "negative log-likelihood" if self.labels else "variance"
                error = f"cross-validated error {trial.errors[k]:.4g} of the {unit} with {k} terms"
                self.report(f"{trial.title}: {error}")
        return trials

    def repeat(self, trials: list[Trial], folds: list[Folds]) -> list[Trial]:
        """Average trials with more repeats of cross-validation, on these folds."""
        if not folds:
            return trials
        repeats = [self.cross_validated_again(trials, one) for one in folds]
        averaged = []
        for trial, *others in zip(repeats[0][0], *(again for _, again in repeats), strict=True):
            more = [replace(other.repeats[0], max_terms=len(trial.losses) - 1) for other in others]
            averaged.append(replace(trial, repeats=trial.repeats + more))
        return self.reported(averaged)

    def extended(self, trial: Trial, max_terms: int) -> Trial:
        """Continue the paths of a trial to more terms."""
        pairs, max_terms = zip(trial.repeats, self.folds, strict=False), min(max_terms, self.max_terms)
        repeats = [extend(one, folds, max_terms, self.fitting, self.n_threads) for one, folds in pairs]
        self.after_step()
        return replace(trial, repeats=repeats)

    def lengthen(self, trials: list[Trial], choose: Callable[[list[Trial]], tuple[int, int]]) -> list[Trial]:
        """Double paths until the chosen size is well below their length.

        Those of other dictionaries grow with the best one if their errors are close, for ensembles.
        """
        share = self.settings.growth_share
        while True:
            place, size = choose(trials)
            best = trials[place]
            length = len(best.losses) - 1
            if size < share * length or length >= self.max_terms:
                return trials
            kept, longer = [], []
            for trial in trials:
                close = trial.errors.min() <= self.settings.close_error * best.errors.min()
                grows = len(trial.losses) - 1 < 2 * length and trial.improves(share)
                if trial is best or (grows and (close or trial.name == best.name)):
                    longer.append(self.extended(trial, 2 * length))
                else:
                    kept.append(trial)
            trials = kept + self.reported(longer)


def in_order(names: Iterable[str], found: Iterable[tuple[str, list[Trial]]]) -> list[Trial]:
    """Return the trials of dictionaries in the order of these names."""
    trials = dict(found)
    return list(chain.from_iterable(trials[name] for name in names))


def choose_scale(search: Search, max_terms: int) -> None:
    """Take no logarithms of skewed inputs, in any dictionary, unless these lower the error of one of them."""
    named = [name for name in ("pairs", "additive", *search.bases) if name in search.bases]
    name = next((name for name in named if logarithms_of(search.bases[name])), None)
    if name is None:
        return
    as_given = {name: without_logarithms(basis) for name, basis in search.bases.items()}
    wanted = {name: [Objective("ridge" if search.labels and search.loss is not None else "data")]}
    folds, numbers, errors = search.folds[0], search.first_folds, list[float]()
    for one in (search, replace(search, bases=as_given)):
        ((_, trials),) = one.try_dictionaries(wanted, {name: max_terms}, folds, numbers)
        errors.append(lowest_error([trial.on_rows(np.isin(folds.fold, numbers)) for trial in trials]))
    if errors[0] >= (1 - search.settings.min_gain) * errors[1]:
        search.bases = as_given


def try_first(
    search: Search, options: RecipeOptions, targets: list[str], length: int, rivals: Sequence[Trial] = ()
) -> list[Trial]:
    """Cross-validate dictionaries and targets for the first time, beside `rivals`, which are trials of another link.

    Hinges, steps and boosting as the target take most of the time. With "auto" they are tried only if there are enough
    samples, and if boosting itself is about as accurate as the best of the others.
    """

    def start(names: list[str], some: list[str], others: Sequence[Trial], before: Sequence[Trial] = ()) -> list[Trial]:
        wanted = {name: search.objectives_of(name, some) for name in names}
        wanted = {name: own for name, own in wanted.items() if own}
        return search.start(wanted, length, [*rivals, *others], before) if wanted else []

    def start_plain(names: list[str], some: list[str]) -> list[Trial]:
        """The ridge fit takes more time than the path: it is a target of dictionaries that are not clearly worse."""
        if not search.rest_folds:
            return start(names, some, [])
        first = start(names, some[:1], [])
        alive = {trial.name for trial in first}
        return first + start([name for name in names if name in alive], some[1:], first, before=first)

    names, plain = list(search.bases), [target for target in targets if target not in REFERENCES]
    if not isinstance(options.target, str) or not plain:
        search.choose_trees()
        return search.finish(start(names, targets, []))
    rough = [name for name in names if DICTIONARIES[name].rough and options.dictionary == "auto"]
    others, started, found = [name for name in names if name not in rough], list[Trial](), list[Trial]()
    references, (n, q) = [target for target in targets if target in REFERENCES], search.folds[0].Y.shape
    enough = n >= search.settings.rough_rows and q <= search.settings.max_boosted_outputs
    compares = enough and search.reference is not None and bool(rough or references)  # with the reference model
    if options.labels and options.loss is not None and {"data", "ridge"} <= set(plain):
        # Paths of maximum likelihood take most of the time: the dictionary is chosen by ridge regression.
        found = search.finish(start(others, ["ridge"], []))
        best = most_accurate_of(found).name
        started = start([name for name in others if name in ("linear", best)], ["data"], found)
        targets = [target for target in targets if target != "data"]
    else:
        with ThreadPoolExecutor(1) as pool:
            if compares and cpu_count() > search.settings.serial_cores:  # while dictionaries are fitted
                for number in search.first_folds[: search.settings.race_folds]:
                    pool.submit(search.fold_reference, search.folds[0], number)
            started = start_plain(others, plain)
    if tries_penalties(search):  # which are compared in all folds
        started, found = [], try_penalties(search, found + search.finish(started), length)
    if compares and found + started and search.favours_boosting(found + started):
        started += start(rough, targets, found + started)
        started += start(others, references, found + started)
    return clearly_nonlinear(search, found + search.finish(started))
