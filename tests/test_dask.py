"""The same blocks on the workers of a cluster: same terms, same weights, whatever becomes of a worker."""

from __future__ import annotations

import pickle
import types

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold

from termwise import (
    BasisRidge,
    CriterionSearch,
    ForwardClassifier,
    ForwardRegressor,
    LagBasis,
    RadialBasis,
    TermwiseRegressor,
    forward_path,
)
from termwise.execution.cluster import Cluster, split_chunks
from termwise.execution.dask import ChunkReader, DaskBlocks, WorkerBlocks
from termwise.selection import RULES
from termwise.selection.blocks import RowBlock
from termwise.selection.engine import Settings, grow_path

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'termwise[dask]'")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.xdist_group("dask")  # one cluster, where tests run on several processes


@pytest.fixture(scope="module")
def cluster():
    """Two workers, each a process with one thread."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    return distributed.get_client()


@pytest.fixture
def data(rng):
    """Columns that have something in common; two outputs; weights, some of them zero."""
    G = rng.normal(size=(90, 12)) + 0.4
    G[:, 5] = G[:, 3] + 0.1 * rng.normal(size=90)
    Y = G[:, [3, 7]] @ [[1.0, 0.5], [-2.0, 1.0]] + rng.normal(size=(90, 2)) + 5
    weights = rng.integers(0, 4, size=90).astype(float)
    weights[30:60] = 0  # a whole chunk
    return G, Y, weights


def chunked(*arrays, rows=30):
    """Chunks of rows, one of them empty, each in one or two chunks of columns."""
    n = len(arrays[0])
    sizes = (0, *[rows] * (n // rows), n % rows)
    found = [da.from_array(a, chunks=(sizes, *(((s + 1) // 2, s // 2) for s in a.shape[1:]))) for a in arrays]
    return found[0] if len(found) == 1 else found


def assert_same_path(path, expected):
    assert path.terms.tolist() == expected.terms.tolist()
    assert path.stop_reason == expected.stop_reason
    for name in ("sse", "cost", "dof", "alpha", "loo", "loo_se", "gcv", "bic"):
        np.testing.assert_allclose(path.column(name), expected.column(name), rtol=1e-8, atol=1e-10)
    for k in range(len(path) + 1):
        for found, known in zip(path.coef(k), expected.coef(k), strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-8, atol=1e-10)


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_takes_the_same_path(rule, client, data):
    G, Y, weights = data
    Y = np.sign(Y[:, 0] - 4) if rule == "loo_error" else Y
    options = {"rule": rule, "max_terms": 3, "beta": 0.1, "sample_weight": weights}
    expected = forward_path(G, Y, **options)
    assert_same_path(forward_path(*chunked(G, Y), **{**options, "sample_weight": chunked(weights)}), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": "reestimate"},
        {"penalty": "orthogonal", "alpha": 0.5},
        {"precompute": True, "fit_intercept": False},
        {"refine": "swap", "include": [1], "rule": "cost"},
        {"criterion": "tcr", "patience": 1},
    ],
    ids=str,
)
def test_every_kind_of_model_takes_the_same_path(options, client, data):
    G, Y, _ = data
    options = {**options, "max_terms": 3}
    assert_same_path(forward_path(*chunked(G, Y), **options), forward_path(G, Y, **options))


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "precompute"), [("cost", "auto"), ("loo", 5)])
def test_few_passes_for_many_terms(rule, precompute, client, rng):
    """Columns of G'G that one pass computes serve later terms."""
    G = rng.normal(size=(240, 60))
    y = G[:, :8].sum(axis=1) + rng.normal(size=240)
    rows = DaskBlocks(split_chunks(*chunked(G, y, rows=120), None), ChunkReader())
    path = grow_path(rows, Settings(rule, 1e-6, max_terms=10, precompute=precompute), one_output=True)
    assert path.terms.tolist() == forward_path(G, y, rule=rule, max_terms=10, precompute=False).terms.tolist()
    assert rows.passes <= 5


def test_targets_and_weights_may_be_in_memory(client, data):
    G, Y, weights = data
    found = forward_path(chunked(G), Y[:, 0], max_terms=3, sample_weight=weights)
    assert_same_path(found, forward_path(G, Y[:, 0], max_terms=3, sample_weight=weights))


def test_sparse_chunks_stay_sparse(client, data):
    G, Y, _ = data
    G = np.where(np.abs(G) > 1, G, 0)
    chunks = da.from_array(G, chunks=(30, 12)).map_blocks(sp.csr_array)
    assert_same_path(forward_path(chunks, Y, max_terms=3), forward_path(sp.csr_array(G), Y, max_terms=3))


@pytest.mark.slow
def test_single_precision_stays(client, data):
    G, Y, _ = data
    G = G.astype(np.float32)
    found, known = ForwardRegressor(max_terms=3).fit(*chunked(G, Y)), ForwardRegressor(max_terms=3).fit(G, Y)
    assert found.support_.tolist() == known.support_.tolist()
    np.testing.assert_allclose(found.weights_, known.weights_, rtol=1e-5)
    assert found.predict(chunked(G)).dtype == np.float32 == found.predict(chunked(G)).compute().dtype


@pytest.mark.slow
def test_callbacks_follow_and_stop(client, data, capsys):
    G, Y, _ = data
    seen = []
    path = forward_path(*chunked(G, Y), callback=lambda path: seen.append(len(path)) or len(path) == 2)
    assert seen == [1, 2]
    assert path.stop_reason == "stopped by a callback"
    ForwardRegressor(max_terms=1, verbose=1).fit(*chunked(G, Y))
    assert "   1  candidate      7  loo" in capsys.readouterr().out


# -- what the cluster has to bear --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_may_be_lost(cluster, client, data):
    """Its blocks are computed again from their chunks and the steps so far."""
    G, Y, weights = data
    lost = []

    def kill(path):
        if len(path) == 3:
            lost.extend(w for w, keys in client.has_what().items() if any("call_blocks" in str(key) for key in keys))
            client.run(kill_process, workers=lost[:1], nanny=True)

    path = forward_path(*chunked(G, Y), max_terms=5, sample_weight=weights, callback=kill)
    assert lost
    assert_same_path(path, forward_path(G, Y, max_terms=5, sample_weight=weights))
    client.wait_for_workers(2)


def kill_process(dask_worker):
    """Kill the process that a nanny looks after, without a good-bye; the nanny starts another."""
    dask_worker.process.process._process.kill()


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_an_error_in_time(client, data):
    """Workers are busy with tasks that do not end, as if they were stopped."""
    G, Y, _ = data
    release = distributed.Event("release")
    busy = [client.submit(distributed.Event.wait, release, 60, pure=False) for _ in range(4)]
    try:
        with pytest.raises(
            TimeoutError,
            match=r"must end a task every timeout=0\.2 seconds, got none: restart workers",
        ):
            forward_path(*chunked(G, Y), timeout=0.2)
    finally:
        release.set()
    distributed.wait(busy)
    found = forward_path(*chunked(G, Y), max_terms=2, timeout=None)
    assert_same_path(found, forward_path(G, Y, max_terms=2))
    with pytest.raises(ValueError, match="timeout must be a finite number > 0, got 0: None sets no limit"):
        ForwardRegressor(timeout=0).fit(*chunked(G, Y))


def test_a_lost_connection_is_an_error():
    """It is the answer to all requests, whatever they are."""

    def lose(*_, **__):
        raise distributed.comm.CommClosedError("closed by the other side")

    nobody = types.SimpleNamespace(sync=lose)
    with pytest.raises(
        ConnectionError, match=r"The Dask cluster must be there until the fit ends, got a lost connecti"
    ):
        Cluster(nobody).ask(lambda client: client.nthreads())


@pytest.mark.slow
def test_blocks_stay_where_they_are_and_old_ones_are_let_go(client, rng):
    G = da.random.default_rng(0).normal(size=(20_000, 100), chunks=(5_000, 100)).persist()
    y = (G[:, :8].sum(axis=1) + da.random.default_rng(1).normal(size=20_000, chunks=5_000)).persist()
    distributed.wait([G, y])
    before, most = sum(client.run(bytes_received).values()), []

    def count(path):
        most.append(sum("call_blocks" in str(key) for keys in client.has_what().values() for key in keys))

    forward_path(G, y, rule="cost", max_terms=8, callback=count)
    assert max(most) <= 2 * 4  # of each block the newest, and the one before on its way out
    moved = sum(client.run(bytes_received).values()) - before
    assert moved < G.nbytes / 4  # answers alone


def bytes_received(dask_worker):
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)


def test_the_scheduler_knows_how_large_a_block_is(rng):
    block = RowBlock(rng.normal(size=(1_000, 10)), np.ones((1_000, 1)), np.ones(1_000))
    assert WorkerBlocks([block, block], None).__sizeof__() > 160_000
    assert WorkerBlocks([], None).__sizeof__() < 1_000


@pytest.mark.slow
def test_large_arguments_travel_once(client, data, monkeypatch):
    monkeypatch.setattr("termwise.execution.dask.LARGE_ARGUMENTS", 0)
    monkeypatch.setattr("termwise.execution.dask.FAN_IN", 2)
    G, Y, _ = data
    assert_same_path(forward_path(*chunked(G, Y), max_terms=3), forward_path(G, Y, max_terms=3))


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "outputs"),
    [({"criterion": "bic"}, 1), ({"rule": "cost", "alpha": "reestimate"}, 2), ({"penalty": "orthogonal"}, 2)],
    ids=str,
)
def test_a_model_is_an_ordinary_one(options, outputs, client, data):
    G, Y, weights = data
    Y = Y[:, 0] if outputs == 1 else Y
    found = ForwardRegressor(max_terms=4, **options).fit(*chunked(G, Y), sample_weight=chunked(weights))
    known = ForwardRegressor(max_terms=4, **options).fit(G, Y, sample_weight=weights)
    found = pickle.loads(pickle.dumps(found))
    for a, b in ((found, known), (found.at(2), known.at(2)), (found.at(0), known.at(0))):
        assert a.support_.tolist() == b.support_.tolist()
        assert a.summary() == b.summary()
        for name in ("coef_", "intercept_", "weights_cov_", "noise_variance_", "effective_dof_", "criterion_value_"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-8, atol=1e-12)
        for mine, theirs in zip(a.predict(G, return_std=True), b.predict(G, return_std=True), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_data_frames_whose_lengths_are_not_known(weighted, client, data):
    G, Y, weights = data
    frame = pd.DataFrame(G, columns=[f"c{j}" for j in range(12)]).assign(y=Y[:, 0], w=weights)
    far = dd.from_pandas(frame, npartitions=3)
    far = far[far.y < 100]  # which leaves nobody out, but nobody knows
    X, X_far = frame.drop(columns=["y", "w"]), far.drop(columns=["y", "w"])
    model = ForwardRegressor(max_terms=2).fit(X_far, far.y, sample_weight=far.w if weighted else None)
    known = ForwardRegressor(max_terms=2).fit(X, frame.y, sample_weight=frame.w if weighted else None)
    assert model.get_feature_names_out().tolist() == known.get_feature_names_out().tolist()
    np.testing.assert_allclose(model.weights_, known.weights_, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X_far).compute(), known.predict(X), rtol=1e-8)
    near = ForwardRegressor(max_terms=2).fit(X_far, Y[:, 0], sample_weight=weights if weighted else None)
    np.testing.assert_allclose(near.weights_, known.weights_, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [["no", "yes"], [3, 1, 2]], ids=["two", "three"])
def test_classes(labels, client, data):
    G, Y, _ = data
    y = np.array(labels)[np.digitize(Y[:, 0], np.quantile(Y[:, 0], np.arange(1, len(labels)) / len(labels)))]
    found = ForwardClassifier(rule="loo_error", max_terms=2).fit(*chunked(G, y))
    known = ForwardClassifier(rule="loo_error", max_terms=2).fit(G, y)
    assert found.classes_.tolist() == known.classes_.tolist()
    assert found.support_.tolist() == known.support_.tolist()
    np.testing.assert_allclose(found.decision_function(chunked(G)).compute(), known.decision_function(G), rtol=1e-8)
    assert found.predict(chunked(G)).compute().tolist() == known.predict(G).tolist()
    assert found.score(chunked(G), y) == known.score(G, y)


@pytest.mark.slow
def test_a_basis_is_fitted_to_some_rows_and_evaluated_where_they_are(client, data):
    G, Y, weights = data
    X, y = G[:, :3], Y[:, 0]
    for centers in (G[:15, :3], "samples"):  # so few rows are all seen
        model = ForwardRegressor(RadialBasis(width=2.0, centers=centers), max_terms=3)
        known = model.fit(X, y, sample_weight=weights)
        terms, weights_, predicted = known.support_.tolist(), known.weights_, known.predict(X)
        found = model.fit(chunked(X), chunked(y), sample_weight=chunked(weights))
        assert found.support_.tolist() == terms
        np.testing.assert_allclose(found.weights_, weights_, rtol=1e-7)
        np.testing.assert_allclose(found.predict(chunked(X)).compute(), predicted, rtol=1e-8)
        np.testing.assert_allclose(found.transform(chunked(X)).compute(), found.transform(X))


@pytest.mark.slow
def test_models_of_arrays_predict_dask_lazily(data):
    """Sparse and empty chunks will do; the scheduler is whichever is in use."""
    G, Y, _ = data
    model = ForwardRegressor(max_terms=3, selection_cv=4).fit(G, Y)
    far = chunked(G)
    for found, known in (
        (model.predict(far), model.predict(G)),
        (model.transform(far), model.transform(G)),
        (model.predict(far.map_blocks(sp.csr_array)), model.predict(G)),
        *zip(model.predict(far, return_std=True), model.predict(G, return_std=True), strict=True),
        *zip(model.predict_interval(far), model.predict_interval(G), strict=True),
        *zip(*(model.predict_interval(X, method="jackknife+") for X in (far, G)), strict=True),
        (BasisRidge().fit(G, Y).predict(far), BasisRidge().fit(G, Y).predict(G)),
    ):
        assert isinstance(found, da.Array)
        assert found.shape == known.shape
        np.testing.assert_allclose(found.compute(), known, rtol=1e-12)
    with pytest.raises(ValueError, match="X has 3 features, but ForwardRegressor is expecting 12"):
        model.predict(far[:, :3])


def test_a_search_spreads_its_candidates_over_the_cluster(client, data):
    joblib = pytest.importorskip("joblib")
    G, Y, _ = data
    search = CriterionSearch(ForwardRegressor(RadialBasis(), max_terms=5), {"basis__width": [0.5, 2.0, 8.0]})
    known = search.fit(G[:, :3], Y[:, 0]).results_["criterion_value"]
    with joblib.parallel_config("dask", n_jobs=2):
        found = search.fit(G[:, :3], Y[:, 0]).results_["criterion_value"]
    np.testing.assert_allclose(found, known, rtol=1e-8)


def test_a_search_may_be_over_data_on_the_cluster(client, data):
    G, Y, _ = data
    search = CriterionSearch(ForwardRegressor(max_terms=1), {"alpha": [1e-6, 10.0]})
    far = search.fit(*chunked(G, Y)).results_["criterion_value"]
    np.testing.assert_allclose(far, search.fit(G, Y).results_["criterion_value"], rtol=1e-8)


# -- errors ------------------------------------------------------------------------------------------------------------


def with_a_hole(G, value=np.nan):
    G = G.copy()
    G[50, 2] = value
    return G


CASES = {
    "NaN": (lambda G, Y, w: ForwardRegressor().fit(*chunked(with_a_hole(G), Y)), "Input X contains NaN"),
    "infinity": (lambda G, Y, w: forward_path(*chunked(with_a_hole(G, np.inf), Y)), "Input G contains infinity"),
    "NaN in y": (lambda G, Y, w: forward_path(*chunked(G, Y * np.nan)), "Input y contains NaN"),
    "lengths": (lambda G, Y, w: forward_path(chunked(G), chunked(Y[:5])), r"numbers of samples: \[90, 5\]"),
    "lengths, in memory": (lambda G, Y, w: forward_path(chunked(G), Y[:5]), r"numbers of samples: \[90, 5\]"),
    "weights below zero": (
        lambda G, Y, w: forward_path(*chunked(G, Y), sample_weight=chunked(-w)),
        r"sample_weight must be finite and >= 0, got -\d",
    ),
    "weights of a wrong length": (
        lambda G, Y, w: forward_path(*chunked(G, Y), sample_weight=w[:3]),
        r"sample_weight must have shape \(90,\), got \(3,\)",
    ),
    "no weight at all": (
        lambda G, Y, w: forward_path(*chunked(G, Y), sample_weight=chunked(0 * w)),
        "sample_weight must not be zero for all samples",
    ),
    "too little weight": (
        lambda G, Y, w: forward_path(*chunked(G, Y), sample_weight=chunked(w / 1e3)),
        "sample_weight must add up to at least 2 samples",
    ),
    "one row": (lambda G, Y, w: forward_path(*chunked(G[:1], Y[:1])), r"1 sample\(s\).* minimum of 2 is required"),
    "no target": (lambda G, Y, w: ForwardRegressor().fit(chunked(G), None), "requires y to be passed"),
    "one class": (
        lambda G, Y, w: ForwardClassifier().fit(*chunked(G, np.ones(90))),
        "y must have at least two classes",
    ),
    "parameter": (lambda G, Y, w: ForwardRegressor(rule="aic").fit(*chunked(G, Y)), "rule must be one of"),
    "refit": (
        lambda G, Y, w: ForwardRegressor(refit_alpha="loo").fit(*chunked(G, Y)),
        "refit_alpha must be None for Dask data, got 'loo': it would need the rows",
    ),
    "neighbours": (
        lambda G, Y, w: ForwardRegressor(LagBasis()).fit(*chunked(G, Y)),
        r"basis must transform each row independently for Dask data, got LagBasis.*, which depends on other rows",
    ),
    "chunks that do not match": (
        lambda G, Y, w: forward_path(unknown(G, 3), unknown(Y, 4)),
        "y must have as many chunks of rows as X where their lengths are not known, got 4 for 3",
    ),
    "residuals": (
        lambda G, Y, w: ForwardRegressor(max_terms=1).fit(*chunked(G, Y)).loo_residuals_,
        "leave-one-out residuals and intervals need every row of the fit, got a model fitted on Dask data",
    ),
    "folds": (
        lambda G, Y, w: ForwardRegressor(selection_cv=5).fit(*chunked(G, Y)),
        "selection_cv must be None for Dask data and for rows of a file, got 5",
    ),
    "intervals": (
        lambda G, Y, w: ForwardRegressor(max_terms=1).fit(*chunked(G, Y)).predict_interval(G),
        "leave-one-out residuals and intervals need every row of the fit",
    ),
}


def unknown(array, count):
    return dd.from_pandas(pd.DataFrame(array), npartitions=count)


@pytest.mark.parametrize(("action", "message"), CASES.values(), ids=CASES)
def test_messages(action, message, client, data):
    with pytest.raises((TypeError, ValueError), match=message):
        action(*data)


@pytest.mark.slow
def test_dask_where_it_does_not_help(data):
    G, Y, _ = data
    with pytest.raises(
        TypeError, match=r"X must be a Dask array .*, got ndarray .*: where y or sample_weight is a Dask"
    ):
        forward_path(G, chunked(Y))
    with pytest.raises(TypeError, match=r"X must be a Dask array .*, got Array of shape \(90,\)"):
        forward_path(chunked(G[:, 0]), chunked(Y))
    with pytest.raises(TypeError, match="TermwiseRegressor must be given data in memory, got a Dask collection: use"):
        TermwiseRegressor().fit(*chunked(G, Y))


@pytest.mark.slow
def test_without_a_cluster_it_is_said_how_to_start_one(data, monkeypatch):
    def no_client():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", no_client)
    G, Y, _ = data
    with pytest.raises(ValueError, match="X must not be a Dask collection without a cluster to work on, got no client"):
        forward_path(*chunked(G, Y))


@pytest.mark.parametrize("given", ["pairs", "splitter"])
def test_folds_of_rows_with_weights_of_zero(given, data, client):
    """A whole chunk has none: the folds are those of all rows given."""
    G, Y, weights = data
    cv = KFold(4, shuffle=True, random_state=0)
    cv = list(cv.split(G)) if given == "pairs" else cv
    expected = forward_path(G, Y, rule="kfold", cv=cv, sample_weight=weights, max_terms=4)
    rows = [da.from_array(part, chunks=(15, *part.shape[1:])) for part in (G, Y, weights)]
    path = forward_path(*rows[:2], rule="kfold", cv=cv, sample_weight=rows[2], max_terms=4)
    np.testing.assert_array_equal(path.terms, expected.terms)
    np.testing.assert_allclose(path.column("score")[1:], expected.column("score")[1:])
