"""How a path is to grow: what the settings may be, and the rules they may name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from termwise._checks import check_bool, check_choice, check_number
from termwise.execution.local import Executor
from termwise.selection.kfold import KFoldRule
from termwise.selection.leave_one_out import LooRule
from termwise.selection.loo_error import LooErrorRule
from termwise.selection.path import SIZES
from termwise.selection.rules import CostRule, DOptimalRule, GcvRule, NormRule, Rule, SseRule

ALL_RULES: tuple[type[Rule], ...] = (
    LooRule,
    CostRule,
    SseRule,
    GcvRule,
    KFoldRule,
    LooErrorRule,
    DOptimalRule,
    NormRule,
)
RULES = {rule.name: rule for rule in ALL_RULES}
PENALTIES = ("weights", "orthogonal")
REFINEMENTS = ("swap",)


@dataclass(frozen=True)
class Settings:
    """How a path is to grow; `forward_path` says what each means."""

    rule: str | Rule
    alpha: Any
    penalty: str = "weights"
    max_terms: int | None = None
    criterion: str | None = None
    patience: int | None = None
    max_seconds: float | None = None
    include: Any = ()
    beta: float = 1e-6
    cv: Any = 5
    precompute: Any = "auto"
    fit_intercept: bool = True
    block_rows: int | None = None
    min_norm: float = 0.0  # a candidate whose rest beside the chosen ones has no larger square is out
    refine: str | None = None

    def check(self) -> None:
        """Raise on the first bad one."""
        if not isinstance(self.rule, Rule):
            check_choice("rule", self.rule, RULES, remedy="pick one, or give an instance of termwise.selection.Rule")
        check_choice("penalty", self.penalty, PENALTIES)
        check_bool("fit_intercept", self.fit_intercept, remedy="True fits the mean too")
        if self.criterion is not None:
            check_choice("criterion", self.criterion, SIZES, remedy="None keeps every term")
        self._check_alpha()
        self._check_refine()
        for name in ("max_terms", "patience", "block_rows"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, integer=True, remedy="None sets no limit")
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, above=0, remedy="None sets no limit")
        check_number("beta", self.beta, low=0, remedy="1e-6 is Hong's")
        check_number("min_norm", self.min_norm, low=0, remedy="0 lets in every column that says something new")
        if self.precompute != "auto":
            check_bool("precompute", self.precompute, remedy="'auto' decides by the sizes")

    def make_rule(self, rows: Executor) -> Rule:
        """Return the rule that is named, made for these rows, or the one that was given."""
        return self.rule if isinstance(self.rule, Rule) else RULES[self.rule].build(self, rows)

    def _check_alpha(self) -> None:
        if not isinstance(self.alpha, str):
            check_number("alpha", self.alpha, low=0, remedy="give a small penalty such as 1e-6, or 'reestimate'")
            return
        check_choice("alpha", self.alpha, ["reestimate"], remedy="give a number >= 0 or 'reestimate'")
        if self.penalty != "weights":
            raise ValueError(
                f"penalty must be 'weights' with alpha='reestimate', got {self.penalty!r}: the formula is for the "
                "weights themselves."
            )

    def _check_refine(self) -> None:
        if self.refine is None:
            return
        check_choice("refine", self.refine, REFINEMENTS, remedy="None keeps the terms as they were taken")
        if self.alpha == "reestimate":
            raise ValueError(
                "alpha must be a number with refine='swap', got 'reestimate': models under different penalties cannot "
                "be compared; give the alpha that comes out without refine, or use refit_alpha."
            )
        if self.penalty != "weights":
            raise ValueError(
                f"penalty must be 'weights' with refine='swap', got {self.penalty!r}: only then is a model the same "
                "whatever the order of its terms."
            )
        if self.rule == "d_optimal" and self.alpha != 0:
            raise ValueError(
                f"alpha must be 0 with rule='d_optimal' and refine='swap', got {self.alpha!r}: only then do the scores "
                "of the terms add up to something that does not depend on their order."
            )
