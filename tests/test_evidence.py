"""EvidenceForwardRegressor against explicit Gram-Schmidt, and what the theory of evidence promises."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.model_selection import cross_val_score

from termwise import EvidenceForwardRegressor, ForwardRegressor, RadialBasis, datasets
from termwise.estimators.evidence import Terms, greedy_order


def make(shape, seed=0, outputs=1, noise=0.3):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=shape) + 0.5
    Y = G[:, :3] @ rng.normal(size=(3, outputs)) + noise * rng.normal(size=(shape[0], outputs)) + 1.0
    return G, Y[:, 0] if outputs == 1 else Y


def orthogonal_terms(model, G):
    """The orthogonalised columns of a fitted model, centred as it sees them."""
    H = G[:, model.support_]
    return oracles.orthogonal_columns(H - H.mean(axis=0) if model.fit_intercept else H)


# -- the same as the definition ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reselect", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("shape", [(30, 8), (12, 20)], ids=["long", "wide"])
def test_equals_the_definition(shape, outputs, intercept, reselect):
    for seed in range(3):
        G, y = make(shape, seed, outputs)
        for updates in (0, 1, 5):
            model = EvidenceForwardRegressor(
                alpha=0.05, max_iter=updates, tol=0, reselect=reselect, fit_intercept=intercept
            ).fit(G, y)
            chosen, alphas, w = oracles.evidence_forward(G, y, 0.05, updates, reselect, intercept=intercept)
            assert model.support_.tolist() == chosen
            np.testing.assert_allclose(model.alphas_, alphas, rtol=1e-6)
            np.testing.assert_allclose(np.atleast_2d(model.weights_), w.T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("reselect", [False, True])
def test_equals_the_definition_on_a_nearly_singular_dictionary(reselect):
    X, y = datasets.make_sine(random_state=3)
    G = RadialBasis(width=0.2).fit_transform(X)
    model = EvidenceForwardRegressor(max_iter=4, tol=0, min_norm=1e-4, reselect=reselect).fit(G, y)
    chosen, alphas, w = oracles.evidence_forward(G, y, 1e-3, 4, reselect, min_norm=1e-4)
    assert model.support_.tolist() == chosen
    np.testing.assert_allclose(model.alphas_, alphas, rtol=1e-4)
    np.testing.assert_allclose(model.weights_, w[:, 0], rtol=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
def test_no_updates_are_regularised_orthogonal_least_squares(problem, intercept):
    G, y = problem
    model = EvidenceForwardRegressor(alpha=0.1, max_iter=0, fit_intercept=intercept).fit(G, y)
    plain = ForwardRegressor(
        rule="cost", penalty="orthogonal", criterion=None, patience=None, alpha=0.1, fit_intercept=intercept
    ).fit(G, y)
    assert model.support_.tolist() == plain.support_.tolist()
    np.testing.assert_allclose(model.weights_, plain.weights_, rtol=1e-9)
    np.testing.assert_allclose(model.loo_residuals_, plain.loo_residuals_, rtol=1e-9)
    np.testing.assert_array_equal(model.alphas_, 0.1)
    assert model.stop_reason_ == "max_iter=0 reached"
    assert model.evidence_path_.shape == (1,)


@pytest.mark.parametrize("reselect", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_weights_are_repetitions(rng, outputs, reselect):
    G, y = make((30, 10), 5, outputs)
    counts = rng.integers(0, 4, size=30)
    weighted = EvidenceForwardRegressor(reselect=reselect).fit(G, y, sample_weight=counts)
    repeated = EvidenceForwardRegressor(reselect=reselect).fit(*oracles.repeat(counts, G, y))
    assert weighted.support_.tolist() == repeated.support_.tolist()
    for name in ("coef_", "alphas_", "evidence_path_", "criterion_value_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-7)


def test_min_norm_ends_the_path():
    X, y = datasets.make_sine(random_state=0)
    basis = RadialBasis(width=0.3)
    G = basis.fit_transform(X)
    sizes = []
    for min_norm in (1e-2, 1e-4, 0.0):
        model = EvidenceForwardRegressor(basis, min_norm=min_norm, max_iter=0).fit(X, y)
        W = orthogonal_terms(model, G)
        assert np.einsum("ij,ij->j", W, W).min() > min_norm
        others = [oracles.orthogonalised(G - G.mean(axis=0), model.support_, g) for g in (G - G.mean(axis=0)).T]
        assert max(w @ w for w in others) <= max(min_norm, 1e-10 * max(np.sum(G**2, axis=0)))
        sizes.append(model.n_terms_)
    assert sizes[0] < sizes[1] < sizes[2]


# -- what the theory promises ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reselect", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_fixed_point(reselect, outputs):
    seeds, converged = range(6), 0
    for seed in seeds:
        G, y = make((60, 20), seed, outputs, noise=1.0)
        model = EvidenceForwardRegressor(max_iter=400, tol=1e-12, reselect=reselect).fit(G, y)
        if model.stop_reason_ != "the penalties have converged":
            assert reselect  # only reselection can go round in circles
            continue
        converged += 1
        W, Y = orthogonal_terms(model, G), np.reshape(y - y.mean(axis=0), (60, -1))
        again, noise = oracles.evidence_update(W, Y, model.alphas_, 59)
        np.testing.assert_allclose(again, model.alphas_, rtol=1e-4)
        uu = [np.sum((w @ Y) ** 2) / (w @ w) for w in W.T]
        assert min(uu) > outputs * noise  # every term that is left rises above the noise
        np.testing.assert_allclose(model.noise_variance_ if outputs == 1 else model.noise_variance_.mean(), noise)
        s = np.einsum("ij,ij->j", W, W)
        np.testing.assert_allclose(model.alphas_, s / (uu / (outputs * noise) - 1), rtol=1e-4)  # in closed form
    assert converged >= len(seeds) / 2


def test_reselection_may_go_round_in_circles():
    G, y = make((60, 20), 3, noise=1.0)
    one, two, three = (EvidenceForwardRegressor(max_iter=m, reselect=True).fit(G, y) for m in (200, 201, 202))
    assert one.stop_reason_ == "max_iter=200 reached"
    assert one.support_.tolist() == three.support_.tolist() != two.support_.tolist()
    assert set(one.support_) == set(two.support_)
    assert EvidenceForwardRegressor().fit(G, y).stop_reason_ == "the penalties have converged"


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 8), spare=st.integers(0, 8), outputs=st.integers(1, 3))
def test_evidence_never_falls_while_the_terms_stay(seed, k, spare, outputs):
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(k, outputs)) * np.exp(3 * rng.normal(size=(k, 1)))
    rest = float(np.exp(3 * rng.normal())) if spare else 0.0
    terms = Terms(np.arange(k), np.exp(3 * rng.normal(size=k)), np.diag(np.exp(rng.normal(size=k))), U, rest, k + spare)
    for _ in range(10):
        after = terms.update(True, False, 0.0)  # diagonal: what goes leaves the others as they are
        assert after.evidence >= terms.evidence - 1e-9 * abs(terms.evidence) - 1e-9
        terms = after


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("intercept", [True, False])
def test_evidence_is_the_density_of_the_targets(intercept, outputs):
    G, y = make((25, 6), 1, outputs)
    model = EvidenceForwardRegressor(fit_intercept=intercept, max_iter=3, tol=0).fit(G, y)
    W, Y = orthogonal_terms(model, G), np.reshape(y, (25, -1))
    away = np.linalg.qr(np.column_stack([np.ones(25), np.eye(25)[:, 1:]]))[0][:, int(intercept) :]
    shape = away.T @ (np.eye(25) + W @ np.diag(1 / model.alphas_) @ W.T) @ away  # of the density of away' y

    def log_density(noise):
        return sum(multivariate_normal.logpdf(away.T @ column, cov=noise * shape) for column in Y.T)

    best = np.mean([(away.T @ column) @ np.linalg.solve(shape, away.T @ column) for column in Y.T]) / len(shape)
    assert model.evidence_path_[-1] == pytest.approx(log_density(best), rel=1e-9)
    assert log_density(best) > max(log_density(0.9 * best), log_density(1.1 * best))


def test_scale_of_the_targets_does_not_matter():
    G, y = make((40, 15), 2)
    for reselect in (False, True):
        one = EvidenceForwardRegressor(reselect=reselect).fit(G, y)
        for scale in (1e-6, 1e7):
            other = EvidenceForwardRegressor(reselect=reselect).fit(G, scale * y)
            assert one.support_.tolist() == other.support_.tolist()
            assert one.n_updates_ == other.n_updates_
            np.testing.assert_allclose(other.alphas_, one.alphas_, rtol=1e-8)
            np.testing.assert_allclose(other.weights_, scale * one.weights_, rtol=1e-8)
            shift = other.evidence_path_ - one.evidence_path_
            np.testing.assert_allclose(shift, -39 * np.log(scale), rtol=1e-9)  # a density


@pytest.mark.parametrize("reselect", [False, True])
def test_sparse_truth_is_recovered(rng, reselect):
    G = rng.normal(size=(300, 40))
    y = 2 * G[:, 7] - G[:, 19] + 0.5 * G[:, 33] + 0.5 * rng.normal(size=300)
    model = EvidenceForwardRegressor(reselect=reselect).fit(G, y)
    assert model.support_[:3].tolist() == [7, 19, 33]
    np.testing.assert_allclose(model.weights_[:3], [2, -1, 0.5], atol=0.15)
    assert model.n_terms_ < 20
    assert np.abs(model.weights_[3:]).max() < 0.1  # noise that was left in is shrunk
    assert len(model.path_) == 40
    assert model.noise_variance_ == pytest.approx(0.25, rel=0.2)
    start = EvidenceForwardRegressor(max_iter=0).fit(G, y)
    assert model.criterion_value_ < start.criterion_value_
    assert model.evidence_path_[-1] > model.evidence_path_[0]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("reselect", [False, True])
def test_leave_one_out_equals_retraining(problem, intercept, reselect):
    G, y = problem
    model = EvidenceForwardRegressor(alpha=0.1, max_iter=3, reselect=reselect, fit_intercept=intercept).fit(G, y)
    H = G[:, model.support_]
    penalty = oracles.orthogonal_penalty(H - H.mean(axis=0) if intercept else H, model.alphas_)
    retrained = oracles.leave_one_out_quadratic(H, y, penalty, intercept)
    np.testing.assert_allclose(model.loo_residuals_, retrained, rtol=1e-6, atol=1e-8)
    assert model.criterion_value_ == pytest.approx(np.mean(retrained**2), rel=1e-6)
    assert model.effective_dof_ == pytest.approx(
        intercept + np.sum(1 / (1 + model.alphas_ / np.sum(orthogonal_terms(model, G) ** 2, axis=0)))
    )


# -- odd data ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reselect", [False, True])
class TestOddData:
    def test_constant_and_duplicate_columns(self, rng, reselect):
        G = rng.normal(size=(50, 6))
        G[:, 2], G[:, 4] = 3.0, G[:, 0]
        y = G[:, 0] + 0.1 * rng.normal(size=50)
        model = EvidenceForwardRegressor(reselect=reselect).fit(G, y)
        assert model.support_[0] == 0
        assert not {2, 4} & set(model.support_)

    def test_only_constant_columns(self, reselect):
        model = EvidenceForwardRegressor(reselect=reselect).fit(np.full((9, 2), 0.1), np.arange(9.0))
        assert model.n_terms_ == model.n_updates_ == 0
        assert model.stop_reason_ == model.path_.stop_reason
        assert model.predict([[0.1, 0.1]]) == pytest.approx(4.0)

    @pytest.mark.parametrize("value", [0.0, 0.1, 1e9 / 3])
    def test_constant_targets(self, rng, reselect, value):
        G = rng.normal(size=(40, 5))
        model = EvidenceForwardRegressor(reselect=reselect).fit(G, np.full(40, value))
        assert model.n_terms_ == 0
        assert model.stop_reason_ == "no term is left: none rises above the noise"
        np.testing.assert_allclose(model.predict(G), value)
        assert np.isfinite(model.evidence_path_).all()
        assert "no terms" in model.summary()

    def test_zero_targets_without_an_intercept(self, rng, reselect):
        G = rng.normal(size=(20, 3))
        model = EvidenceForwardRegressor(reselect=reselect, fit_intercept=False).fit(G, np.zeros(20))
        assert model.n_terms_ == 0
        np.testing.assert_array_equal(model.predict(G), 0)

    def test_exact_fit(self, rng, reselect):
        G = rng.normal(size=(40, 8))
        model = EvidenceForwardRegressor(reselect=reselect).fit(G, 3 * G[:, 2] - G[:, 5])
        assert model.support_.tolist() == [2, 5]
        np.testing.assert_allclose(model.weights_, [3, -1], rtol=1e-9)
        assert model.stop_reason_ == "the penalties have converged"

    @pytest.mark.parametrize("intercept", [True, False])
    def test_as_many_terms_as_samples(self, rng, reselect, intercept):
        G, y = rng.normal(size=(15, 40)), rng.normal(size=15)
        model = EvidenceForwardRegressor(reselect=reselect, fit_intercept=intercept).fit(G, y)
        assert len(model.path_) == 15 - intercept
        for value in (model.weights_, model.alphas_, model.evidence_path_, model.loo_residuals_, model.noise_variance_):
            assert np.isfinite(value).all()
        assert (model.alphas_ > 0).all()

    def test_two_samples(self, reselect):
        model = EvidenceForwardRegressor(reselect=reselect).fit([[0.0], [1.0]], [0.0, 2.0])
        assert np.isfinite(model.predict([[0.5]])).all()


# -- using it ----------------------------------------------------------------------------------------------------------


def test_everything_a_model_has(rng):
    X, y = datasets.make_sine(random_state=0)
    model = EvidenceForwardRegressor(RadialBasis(width=0.1)).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    lower, upper = model.predict_interval(X, method="jackknife+")
    assert np.all(std > 0)
    assert np.mean((lower <= y) & (y <= upper)) > 0.8
    assert model.alphas_.shape == model.support_.shape == model.weights_.shape == (model.n_terms_,)
    assert model.evidence_path_.shape == (model.n_updates_ + 1,)
    assert model.n_updates_ <= 20
    assert model.weights_cov_.shape == (model.n_terms_,) * 2
    assert f"{model.n_terms_} of 50 terms" in model.summary()
    assert cross_val_score(EvidenceForwardRegressor(RadialBasis(width=0.1)), X, y, cv=3).mean() > 0.8
    np.testing.assert_allclose(mean, RadialBasis(width=0.1).fit_transform(X) @ model.coef_ + model.intercept_)


def test_max_terms_and_max_iter():
    G, y = make((80, 30), 1)
    model = EvidenceForwardRegressor(max_terms=4, max_iter=1, tol=0).fit(G, y)
    assert len(model.path_) == 4
    assert model.path_.stop_reason == "max_terms=4 reached"
    assert model.stop_reason_ == "max_iter=1 reached"
    assert model.n_updates_ == 1


def test_sparse_and_float32_candidates(rng):
    G = rng.normal(size=(60, 12)) * (rng.uniform(size=(60, 12)) < 0.4)
    y = G[:, 0] - 2 * G[:, 5] + 0.2 * rng.normal(size=60)
    dense = EvidenceForwardRegressor().fit(G, y)
    for sparse in (sp.csr_array(G), sp.csc_matrix(G)):
        np.testing.assert_allclose(EvidenceForwardRegressor().fit(sparse, y).coef_, dense.coef_, rtol=1e-8, atol=1e-12)
    single = EvidenceForwardRegressor().fit(G.astype(np.float32), y)
    assert single.predict(G.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.coef_, dense.coef_, atol=1e-4)


def test_one_line_per_update(capsys):
    G, y = make((40, 10), 0)
    model = EvidenceForwardRegressor(verbose=1).fit(G, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_updates_
    assert f"{model.n_terms_} terms" in lines[-1]
    assert f"log evidence {model.evidence_path_[-1]:.6g}" in lines[-1]
    EvidenceForwardRegressor().fit(G, y)
    assert not capsys.readouterr().out


class StopAfter:
    """A callback of scikit-learn's kind that ends the fit after some steps."""

    def __init__(self, steps):
        self.steps, self.seen = steps, 0

    def setup(self, estimator, context):
        self.seen = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **_):
        pass

    def on_fit_task_end(self, estimator, context, **_):
        self.seen += context.task_name == "term"
        return self.seen >= self.steps


@pytest.mark.parametrize("steps", [3, 12])
def test_callbacks_see_terms_and_updates(steps):
    """Ten terms are taken, then the updates begin; both can be ended."""
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    G, y = make((40, 10), 0)
    model = EvidenceForwardRegressor(tol=0).set_callbacks(StopAfter(steps)).fit(G, y)
    assert model.stop_reason_ == "stopped by a callback"
    assert len(model.path_) == min(steps, 10)
    assert model.n_updates_ == max(steps - 10, 0)
    assert np.isfinite(model.predict(G)).all()


def test_greedy_order_takes_the_lower_index_of_equals():
    G = np.eye(4)[:, [0, 1, 2]]
    assert greedy_order(G, np.ones((4, 1)), np.zeros(3), 0.0).tolist() == [0, 1, 2]
    assert greedy_order(G, np.ones((4, 1)), np.array([1.0, 0.5, 0.0]), 0.0).tolist() == [2, 1, 0]
    assert greedy_order(G, np.ones((4, 1)), np.zeros(3), 1.0).tolist() == []


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"alpha": 0}, ValueError, r"alpha must be a finite number > 0, got 0: start from a small penalty such"),
        ({"alpha": "gcv"}, TypeError, r"alpha must be a finite number > 0, got 'gcv'"),
        ({"max_iter": -1}, ValueError, r"max_iter must be a whole number >= 0, got -1: 0 keeps all terms"),
        ({"max_iter": 2.5}, ValueError, r"max_iter must be a whole number >= 0, got 2\.5"),
        ({"min_norm": -1}, ValueError, r"min_norm must be a finite number >= 0, got -1: 0 admits every linearly"),
        ({"tol": -1}, ValueError, r"tol must be a finite number >= 0, got -1: 1e-3 leaves a thousandth of"),
        ({"reselect": 1}, ValueError, r"reselect must be True or False, got 1: True chooses among the terms"),
        ({"max_terms": 0}, ValueError, r"max_terms must be a whole number >= 1, got 0: None sets no limit\."),
        ({"verbose": -1}, ValueError, r"verbose must be a whole number >= 0, got -1: 0 is silent, 1 reports every"),
        ({"fit_intercept": None}, ValueError, r"fit_intercept must be True or False, got None"),
    ],
)  # fmt: skip
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        EvidenceForwardRegressor(**parameters).fit(np.eye(4), np.arange(4.0))


def test_terms_are_kept_without_pruning(rng):
    """As in Hagiwara 2011: penalties diverge, and the weights become zero but for rounding."""
    X = rng.normal(size=(60, 12))
    y = X[:, 0] - X[:, 3] + 0.5 * rng.normal(size=60)
    pruned, kept = (EvidenceForwardRegressor(prune=prune, max_iter=200).fit(X, y) for prune in (True, False))
    assert pruned.n_terms_ < kept.n_terms_ == 12
    assert kept.stop_reason_ == "the penalties have converged"
    small = np.abs(kept.coef_) < 1e-9
    assert 0 < small.sum() <= 12 - pruned.n_terms_ + 1
    assert EvidenceForwardRegressor(prune=False, reselect=True).fit(X, y).n_terms_ == 12
    with pytest.raises(ValueError, match="prune must be True or False, got 1: False keeps terms whose penalty diverg"):
        EvidenceForwardRegressor(prune=1).fit(X, y)


@pytest.mark.parametrize("reselect", [False, True])
def test_targets_of_zeros_without_pruning(rng, reselect):
    for y in (np.zeros(40), np.zeros((40, 2))):
        model = EvidenceForwardRegressor(prune=False, reselect=reselect).fit(rng.normal(size=(40, 4)), y)
        assert model.n_terms_ == 4
        assert not model.coef_.any()
        assert np.isfinite(model.alphas_).all()
        assert np.isfinite(model.evidence_path_).all()
        assert model.stop_reason_ == "the penalties have converged"
