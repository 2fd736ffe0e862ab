"""Which estimator a command line asks for; combinations that make no sense are refused with what does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise.basis import AnovaBasis, FourierBasis, LagBasis, RadialBasis, SmoothBasis, TableEncoder
from termwise.cli.screen import UsageError
from termwise.estimators.evidence import EvidenceForwardRegressor
from termwise.estimators.forward import ForwardClassifier, ForwardRegressor
from termwise.estimators.local_ridge import LocalRidge
from termwise.estimators.prefilter import PrefilterClassifier
from termwise.estimators.ridge import BasisRidge
from termwise.estimators.thresholding import OrthogonalThresholdRegressor
from termwise.recipe import TermwiseClassifier, TermwiseRegressor

MOST_CENTERS = 500  # radial functions of a table with many rows
MOST_TERMS = 150  # of the flagship, unless more are asked for
REGRESSORS = ("ridge", "local-ridge", "threshold", "evidence")
DICTIONARIES = {
    "auto": "auto",
    "none": "linear",
    "smooth": "smooth",
    "relevant": "relevant",
    "anova": "pairs",
}


@dataclass(frozen=True)
class Wish:
    """What was asked for."""

    method: str = "auto"
    basis: str = "auto"
    size: str | int | None = None
    seed: int = 0
    lags: int = 10


def parse_size(text: str | None) -> str | int | None:
    """Return a size as the estimators take it."""
    if text is None or text in ("small", "accurate"):
        return text
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--size must be small, accurate or a number of terms, got {text}.")
    return int(text)


def check_wish(wish: Wish, kind: str) -> None:
    """Raise on combinations that make no sense for numbers, or for classes."""
    method, basis = wish.method, wish.basis
    if method == "prefilter" and kind == "regression":
        raise UsageError(
            "--method prefilter tells classes apart, but the target is numbers: use --method auto, or --task "
            "classification if its values are classes."
        )
    if method in REGRESSORS and kind == "classification":
        raise UsageError(
            f"--method {method} predicts numbers, but the target is classes: use --method auto, forward or prefilter, "
            "or --task regression if its values are numbers."
        )
    if basis == "lag" and kind == "classification":
        raise UsageError("--basis lag is for a target of numbers, got classes: leave it out.")
    if method == "auto" and basis not in DICTIONARIES and basis != "lag":
        raise UsageError(
            f"--method auto has no --basis {basis}: use --method forward --basis {basis}, or one of "
            f"{', '.join(DICTIONARIES)}."
        )
    if method == "prefilter" and basis not in ("auto", "none", "rbf"):
        raise UsageError(f"--method prefilter has no --basis {basis}: use auto or none.")
    check_size(wish)


def check_size(wish: Wish) -> None:
    """Raise if a method does not take the size asked for."""
    numbers = wish.method in ("evidence", "prefilter")
    if wish.size is None or wish.method in ("auto", "forward") or (numbers and isinstance(wish.size, int)):
        return
    remedy = "give a number of terms, or leave it out" if numbers else "leave it out, or use --method auto"
    raise UsageError(f"--method {wish.method} cannot do --size {wish.size}: {remedy}.")


def estimator_for(wish: Wish, kind: str, X: Any, target: str) -> Any:
    """Return the estimator for a table with this target."""
    check_wish(wish, kind)
    if wish.method == "auto" and wish.basis != "lag":
        flagship = TermwiseClassifier if kind == "classification" else TermwiseRegressor
        size = wish.size or "small"
        most = max(size, MOST_TERMS) if isinstance(size, int) else MOST_TERMS
        return flagship(size, dictionary=DICTIONARIES[wish.basis], random_state=wish.seed, max_terms=most)
    if wish.method == "prefilter":
        return prefilter(wish, X)
    basis = basis_for(wish, X, target)
    if wish.method in ("auto", "forward"):
        forward = ForwardClassifier if kind == "classification" else ForwardRegressor
        return forward(basis, refit_alpha="loo", **forward_size(wish.size))
    if wish.method == "evidence":
        return EvidenceForwardRegressor(basis, max_terms=wish.size if isinstance(wish.size, int) else None)
    return {"ridge": BasisRidge, "local-ridge": LocalRidge, "threshold": OrthogonalThresholdRegressor}[wish.method](
        basis
    )


def forward_size(size: str | int | None) -> dict[str, Any]:
    """Say how many terms forward selection keeps."""
    if isinstance(size, int):
        return {"criterion": None, "max_terms": size}
    return {"criterion": "loo" if size == "accurate" else "tcr"}


def prefilter(wish: Wish, X: Any) -> Any:
    """Return the classifier for noisy labels, behind an encoder where there are categories."""
    size: dict[str, Any] = {} if wish.size is None else {"max_terms": wish.size, "criterion": None}
    if wish.basis == "none":
        basis = make_pipeline(TableEncoder(), StandardScaler())
        return PrefilterClassifier(basis, fit_intercept=True, random_state=wish.seed, **size)
    model = PrefilterClassifier(random_state=wish.seed, **size)
    return make_pipeline(TableEncoder(), model) if has_categories(X) else model


def basis_for(wish: Wish, X: Any, target: str) -> Any:
    """Return the transformer that makes the candidates; None for plain columns of numbers."""
    if wish.basis == "lag":
        return LagBasis(wish.lags, input_lags=range(wish.lags + 1), output=target)
    name = wish.basis
    if name == "auto":
        name = "rbf" if wish.method == "threshold" else "none"
    if name == "none":
        steps = [TableEncoder()] if has_categories(X) else []
        if wish.method in REGRESSORS:
            steps = [TableEncoder(), StandardScaler()]  # penalties are fair to columns of one scale only
        return make_pipeline(*steps) if steps else None
    centers: Any = MOST_CENTERS if len(X) > MOST_CENTERS else "samples"
    bases = {
        "rbf": [StandardScaler(), RadialBasis(width="median", centers=centers, random_state=wish.seed)],
        "smooth": [SmoothBasis(centers=centers, random_state=wish.seed)],
        "relevant": [SmoothBasis(centers=centers, random_state=wish.seed, relevance="auto")],
        "anova": [AnovaBasis()],
        "fourier": [FourierBasis()],
    }
    return make_pipeline(TableEncoder(), *bases[name])


def has_categories(X: Any) -> bool:
    """Whether some columns are no numbers."""
    return any(str(kind) == "category" for kind in X.dtypes)
