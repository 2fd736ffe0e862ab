"""Slow, obvious implementations straight from the definitions: real retraining, explicit matrices, loops."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone


def augmented(G, alphas, intercept):
    """Design with a column of ones in front, and the penalties with a zero in front."""
    n, p = G.shape
    alphas = np.broadcast_to(np.asarray(alphas, dtype=float), p)
    if not intercept:
        return G, alphas
    return np.column_stack([np.ones(n), G]), np.append(0.0, alphas)


def repeat(counts, *arrays):
    """Write every row as often as it counts."""
    return tuple(np.repeat(a, counts, axis=0) for a in arrays)


def centred(G):
    """Columns less their means, in extended precision, rounded to float64 at the end."""
    G = np.asarray(G, dtype=np.longdouble)
    return (G - G.mean(axis=0)).astype(np.float64)


def weights(G, y, alphas, intercept=True, counts=None):
    """Weights (intercept first) of least squares with penalties, by the normal equations' augmented rows."""
    H, penalties = augmented(G, alphas, intercept)
    root = np.ones(len(H)) if counts is None else np.sqrt(counts)
    Y = np.asarray(y, dtype=float).reshape(len(H), -1)
    rows = np.vstack([H * root[:, None], np.diag(np.sqrt(penalties))])
    targets = np.vstack([Y * root[:, None], np.zeros((H.shape[1], Y.shape[1]))])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]


def predict(G, w, intercept=True):
    return augmented(G, 0.0, intercept)[0] @ w


def projection(G, alphas, intercept=True):
    """P = I - H A^-1 H', Orr (4.6)."""
    H, penalties = augmented(G, alphas, intercept)
    return np.eye(len(H)) - H @ np.linalg.solve(H.T @ H + np.diag(penalties), H.T)


def leave_one_out(G, y, alphas, intercept=True):
    """Residual of every sample under the model trained without it."""
    Y = np.asarray(y, dtype=float).reshape(len(G), -1)
    residuals = np.empty_like(Y)
    for i in range(len(G)):
        others = np.arange(len(G)) != i
        w = weights(G[others], Y[others], alphas, intercept)
        residuals[i] = Y[i] - predict(G[i : i + 1], w, intercept)[0]
    return residuals


def criteria(G, y, alphas, intercept=True):
    """Orr (5.1) to (5.5) from the explicit projection matrix and real leave-one-out."""
    n = len(G)
    P = projection(G, alphas, intercept)
    sse, dof = float(y @ P @ P @ y), n - np.trace(P)
    return {
        "uev": sse / (n - dof),
        "fpe": (n + dof) / (n - dof) * sse / n,
        "gcv": n * sse / np.trace(P) ** 2,
        "bic": (n + (np.log(n) - 1) * dof) / (n - dof) * sse / n,
        "loo": float(np.mean(leave_one_out(G, y, alphas, intercept) ** 2)),
    }


def covariance(G, y, alphas, intercept=True):
    """sigma^2 A^-1 H'H A^-1, Orr, appendix A.5, intercept first."""
    H, penalties = augmented(G, alphas, intercept)
    P = projection(G, alphas, intercept)
    A_inv = np.linalg.inv(H.T @ H + np.diag(penalties))
    return (y @ P @ P @ y) / np.trace(P) * A_inv @ H.T @ H @ A_inv


def jackknife_plus(G, y, alphas, G_new, coverage, intercept=True):
    """Barber et al. (2021), by retraining n times."""
    n = len(G)
    lows, highs = np.empty((len(G_new), n)), np.empty((len(G_new), n))
    for i in range(n):
        others = np.arange(n) != i
        w = weights(G[others], y[others], alphas, intercept)
        error = abs(y[i] - predict(G[i : i + 1], w, intercept)[0, 0])
        at_new = predict(G_new, w, intercept)[:, 0]
        lows[:, i], highs[:, i] = at_new - error, at_new + error
    miss = 1 - coverage
    low_rank, high_rank = int(np.floor(miss * (n + 1) + 1e-9)), int(np.ceil((1 - miss) * (n + 1) - 1e-9))
    lower = np.sort(lows, axis=1)[:, low_rank - 1] if low_rank >= 1 else np.full(len(G_new), -np.inf)
    upper = np.sort(highs, axis=1)[:, high_rank - 1] if high_rank <= n else np.full(len(G_new), np.inf)
    return lower, upper


def cv_plus(model, X, y, fold, X_new, coverage, side="two-sided"):
    """CV+ with the fold models moved towards the model of all samples, by retraining K times."""
    n, n_folds = len(X), len(np.unique(fold))
    center = clone(model).fit(X, y).predict(X_new)
    values = {
        "lows": np.empty((len(X_new), n)),
        "highs": np.empty((len(X_new), n)),
        "signed": np.empty((len(X_new), n)),
    }
    models = {k: clone(model).fit(X[fold != k], y[fold != k]) for k in np.unique(fold)}
    for i in range(n):
        one = models[fold[i]]
        error = y[i] - one.predict(X[i : i + 1])[0]
        at_new = center + (one.predict(X_new) - center) * n_folds / n
        values["lows"][:, i], values["highs"][:, i] = at_new - abs(error), at_new + abs(error)
        values["signed"][:, i] = at_new + error
    miss = 1 - coverage
    low_rank, high_rank = int(np.floor(miss * (n + 1) + 1e-9)), int(np.ceil((1 - miss) * (n + 1) - 1e-9))
    lower = np.sort(values["lows" if side == "two-sided" else "signed"], axis=1)[:, low_rank - 1]
    upper = np.sort(values["highs" if side == "two-sided" else "signed"], axis=1)[:, high_rank - 1]
    infinite = np.full(len(X_new), np.inf)
    return -infinite if side == "upper" else lower, infinite if side == "lower" else upper


def gcv(G, Y, alphas, intercept):
    """GCV of a model with one penalty per column; infinite penalties leave their column out."""
    finite = np.isfinite(alphas)
    P = projection(G[:, finite], alphas[finite], intercept)
    return len(G) * np.sum((P @ Y) ** 2) / np.trace(P) ** 2


def radial(X, centers, phi, metric):
    """One function value at a time."""
    inverse = np.linalg.inv(metric)
    return np.array([[phi((x - c) @ inverse @ (x - c)) for c in centers] for x in X])


def orthogonal_columns(G):
    """Gram-Schmidt without normalisation: H = H~ U, Orr (7.3)."""
    Q = np.array(G, dtype=float)
    for k in range(Q.shape[1]):
        for _ in range(2):
            for j in range(k):
                Q[:, k] -= Q[:, j] * (Q[:, j] @ Q[:, k]) / (Q[:, j] @ Q[:, j])
    return Q


def smoother(G, alpha, intercept, penalty):
    """P for some columns, with the weights or the orthogonalised weights penalised, Orr (6.4) and (7.8)."""
    if penalty == "weights" or not G.shape[1]:
        return projection(G, alpha, intercept) if G.shape[1] or intercept else np.eye(len(G))
    ones = np.ones((len(G), 1))
    H = orthogonal_columns(np.hstack([ones, G]) if intercept else G)
    P = np.eye(len(G))
    for k in range(H.shape[1]):
        shrink = 0.0 if intercept and k == 0 else alpha
        P -= np.outer(H[:, k], H[:, k]) / (shrink + H[:, k] @ H[:, k])
    return P


def score(G, Y, chosen, j, rule, alpha, intercept, penalty, beta=1e-6):
    """Score of adding candidate j, bigger is better, from explicit projection matrices before and after."""
    n = len(G)
    before = smoother(G[:, chosen], alpha, intercept, penalty)
    after = smoother(G[:, [*chosen, j]], alpha, intercept, penalty)
    g = G[:, j]
    if rule == "sse":
        return np.sum((before @ Y) ** 2) - np.sum((after @ Y) ** 2)
    if rule == "cost":
        return np.sum(Y * (before @ Y)) - np.sum(Y * (after @ Y))
    if rule == "gcv":
        return -n * np.sum((after @ Y) ** 2) / np.trace(after) ** 2
    if rule == "loo":
        return -np.sum((after @ Y / np.diag(after)[:, None]) ** 2)
    if rule == "kfold":  # five contiguous folds
        return -sum(
            np.sum(np.linalg.solve(after[np.ix_(F, F)], (after @ Y)[F]) ** 2) for F in np.array_split(np.arange(n), 5)
        )
    if rule == "loo_error":
        predicted = Y - after @ Y / np.diag(after)[:, None]
        if Y.shape[1] == 1:
            return -np.sum((predicted >= -1e-12) != (Y > 0))
        return -np.sum(predicted.argmax(axis=1) != Y.argmax(axis=1))
    plain = before if penalty == "weights" else smoother(G[:, chosen], 0.0, intercept, "weights")
    if rule == "norm":
        return g @ plain @ g
    s = g @ plain @ g
    if rule == "d_optimal":
        return (np.sum((g @ plain @ Y) ** 2) / s + beta * np.log(s)) / np.sum(Y**2)
    raise ValueError(f"no formula for the rule {rule!r}: add it here")


def forward(G, y, rule, alpha, steps, intercept=True, penalty="weights", tie=1e-9, usable=1e-10):
    """Greedy selection by trying every candidate at every step."""
    Y = np.asarray(y, dtype=float).reshape(len(G), -1)
    chosen = []
    for _ in range(steps):
        plain = (
            smoother(G[:, chosen], 0.0, intercept, "weights")
            if penalty == "orthogonal"
            else smoother(G[:, chosen], alpha, intercept, "weights")
        )
        free = [
            j
            for j in range(G.shape[1])
            if j not in chosen and np.sum((plain @ G[:, j]) ** 2) > usable * (G[:, j] @ G[:, j])
        ]
        if not free:
            break
        scores = np.array([score(G, Y, chosen, j, rule, alpha, intercept, penalty) for j in free])
        if rule == "d_optimal" and scores.max() <= 0:
            break
        chosen.append(free[int(np.flatnonzero(scores >= scores.max() - tie * abs(scores.max()))[0])])
    return chosen


def forward_with_50_digits(G, y, alpha, steps):
    """Forward selection by the regularised cost, with an intercept, in arithmetic that rounding does not disturb.

    Return the terms, the shares of their squares that are left beside the terms before, and, from no term on, the mean
    squared leave-one-out errors.
    """
    import mpmath

    with mpmath.workdps(50):
        one = mpmath.mpf(1)
        G = np.array([[one * float(x) for x in row] for row in G])
        y = np.array([one * float(x) for x in y])
        n, G, r = len(y), G - G.sum(axis=0) / len(y), y - y.sum() / len(y)
        V, gap, chosen, shares = G.copy(), np.array([1 - one / n] * n), [], []
        errors = [float(((r / gap) ** 2).sum() / n)]
        for _ in range(steps):
            c, s = V.T @ y, (G * V).sum(axis=0)
            free = [j for j in range(G.shape[1]) if j not in chosen]
            j = max(free, key=lambda j: c[j] ** 2 / (alpha + s[j]))
            z = V[:, j] / mpmath.sqrt(alpha + s[j])
            V, r, gap = V - np.outer(z, z @ G), r - z * (z @ y), gap - z * z
            chosen.append(j)
            shares.append(float(s[j] / (G[:, j] @ G[:, j])))
            errors.append(float(((r / gap) ** 2).sum() / n))
        return chosen, np.array(shares), errors


def orthogonalised(G, chosen, g):
    """What is left of a column beside the chosen ones."""
    w = np.array(g, dtype=float)
    W = orthogonal_columns(G[:, chosen])
    for _ in range(2):
        for k in range(len(chosen)):
            w -= W[:, k] * (W[:, k] @ w) / (W[:, k] @ W[:, k])
    return w


def regularised_order(G, Y, alphas, min_norm, most, usable=1e-10):
    """Take the candidates named in `alphas`, each with its own penalty, by their regularised error reduction."""
    chosen = []
    while len(chosen) < most:
        best, score = None, -1.0
        for j in sorted(set(alphas) - set(chosen)):
            w = orthogonalised(G, chosen, G[:, j])
            if w @ w > max(min_norm, usable * (G[:, j] @ G[:, j])):
                reduction = np.sum((w @ Y) ** 2) / (w @ w + alphas[j])
                if reduction > score * (1 + 1e-9):
                    best, score = j, reduction
        if best is None:
            break
        chosen.append(best)
    return chosen


def evidence_update(W, Y, alphas, n):
    """MacKay's update for orthogonal columns; also the noise variance it rests on."""
    k, q = len(alphas), Y.shape[1]
    weight = [W[:, i] @ Y / (W[:, i] @ W[:, i] + alphas[i]) for i in range(k)]
    gamma = [W[:, i] @ W[:, i] / (W[:, i] @ W[:, i] + alphas[i]) for i in range(k)]
    error = Y - sum((np.outer(W[:, i], weight[i]) for i in range(k)), np.zeros_like(Y))
    freedom = n - sum(gamma)
    updated = [gamma[i] / freedom * np.sum(error**2) / np.sum(weight[i] ** 2) for i in range(k)]
    return updated, np.sum(error**2) / (q * freedom)


def orthogonal_penalty(G, alphas):
    """The matrix of `sum alpha_k g_k^2` as a quadratic form in the weights: `U' diag(alphas) U` with `G = W U`."""
    W = orthogonal_columns(G)
    U = np.linalg.lstsq(W, G, rcond=None)[0]
    return U.T @ np.diag(alphas) @ U


def evidence_forward(G, y, alpha, updates, reselect, min_norm=1e-6, intercept=True):
    """LROLS by explicit Gram-Schmidt: chosen candidates, their penalties and their weights."""
    Y = np.asarray(y, dtype=float).reshape(len(G), -1)
    n = len(G) - intercept
    if intercept:
        G, Y = G - G.mean(axis=0), Y - Y.mean(axis=0)
    penalty = dict.fromkeys(range(G.shape[1]), alpha)
    chosen = regularised_order(G, Y, penalty, min_norm, n)
    for _ in range(updates):
        W = orthogonal_columns(G[:, chosen])
        updated, noise = evidence_update(W, Y, [penalty[j] for j in chosen], n)
        stays = [np.sum((w @ Y) ** 2) / (w @ w) > Y.shape[1] * noise for w in W.T]
        penalty = {j: a for j, a, stay in zip(chosen, updated, stays, strict=True) if stay}
        chosen = regularised_order(G, Y, penalty, min_norm, n) if reselect else list(penalty)
    alphas = np.array([penalty[j] for j in chosen])
    H = G[:, chosen]
    return chosen, alphas, np.linalg.solve(H.T @ H + orthogonal_penalty(H, alphas), H.T @ Y)


def leave_one_out_quadratic(G, y, penalty, intercept=True):
    """Residual of every sample under the model trained without it, for a penalty `w' penalty w`."""
    H = augmented(G, 0.0, intercept)[0]
    M = np.zeros((H.shape[1], H.shape[1]))
    M[int(intercept) :, int(intercept) :] = penalty
    residuals = np.empty(len(G))
    for i in range(len(G)):
        others = np.arange(len(G)) != i
        w = np.linalg.solve(H[others].T @ H[others] + M, H[others].T @ y[others])
        residuals[i] = y[i] - H[i] @ w
    return residuals


def orthogonal_components(G, method, tol, usable=1e-10):
    """Hagiwara (2011), 4.2: Q such that the columns of `G Q` are orthogonal, by descending squared norm gamma > tol."""
    if method == "eigen":
        _, s, Vt = np.linalg.svd(G)
        return Vt[: len(s)].T[:, s**2 > tol]
    n, p = G.shape
    order, Q = [], np.zeros((p, 0))
    while len(order) < min(n, p):
        best, largest = None, 0.0
        for j in sorted(set(range(p)) - set(order)):
            rest = orthogonalised(G, order, G[:, j])
            if rest @ rest > max(tol, usable * (G[:, j] @ G[:, j]), largest * (1 + 1e-9)):
                best, largest = j, rest @ rest
        if best is None:
            break
        column = np.zeros(p)
        column[order] = -np.linalg.lstsq(G[:, order], G[:, best], rcond=None)[0]
        column[best] = 1.0
        order, Q = [*order, best], np.column_stack([Q, column])
    return Q


def orthogonal_threshold(G, y, method, keep, tol=1e-10, threshold=1.0, intercept=True):
    """OHTED, OHTED2, OHTGS and OHTGS2 on every component above tol: weights, components kept, noise, thresholds."""
    Y = np.asarray(y, dtype=float).reshape(len(G), -1)
    n = len(G)
    if intercept:
        G, Y = G - G.mean(axis=0), Y - Y.mean(axis=0)
    Q = orthogonal_components(G, method, tol)
    A = G @ Q
    gamma = np.sum(A**2, axis=0)
    v = A.T @ Y / gamma[:, None]  # (6)
    I_H = np.eye(n) - A @ np.diag(1 / gamma) @ A.T - (np.ones((n, n)) / n if intercept else 0)
    noise = np.sum((I_H @ Y) ** 2, axis=0) / np.trace(I_H @ I_H)  # (21)
    theta = threshold * 2 * np.log(n) * noise / gamma[:, None]  # (15)
    significant = np.any(v**2 > theta, axis=1)
    if keep == "leading" and significant.any():
        significant[: np.flatnonzero(significant)[-1] + 1] = True
    return Q @ np.where(significant[:, None], v, 0.0), np.flatnonzero(significant), noise, theta


def different_samples(X):
    """Rows of X that no earlier row equals, by comparing all pairs."""
    return [i for i in range(len(X)) if not any(np.array_equal(X[i], X[k]) for k in range(i))]


def smooth_basis(X_train, X, factors, center_rows, extrapolation="clip"):
    """Standardised inputs, then Gaussians on rows of the training data, one function value at a time."""
    train = X_train[different_samples(X_train)]
    inside = np.array([[min(max(v, min(t)), max(t)) for v, t in zip(x, train.T, strict=True)] for x in X])
    of_linear = inside if extrapolation == "constant" else X
    if extrapolation == "bounded":
        of_linear = np.clip(X, train.min(axis=0) - train.std(axis=0), train.max(axis=0) + train.std(axis=0))
    of_gaussians = X if extrapolation == "continue" else inside
    varying = [j for j in range(X.shape[1]) if len(set(train[:, j])) > 1]
    means, deviations = train.mean(axis=0), train.std(axis=0)

    def distance(a, b):
        return np.sqrt(sum(((a[j] - b[j]) / deviations[j]) ** 2 for j in varying))

    median = np.median([distance(a, b) for i, a in enumerate(train) for b in train[:i]])
    columns = [(of_linear[:, j] - means[j]) / deviations[j] for j in varying]
    for factor in factors:
        for row in center_rows:
            columns.append([np.exp(-((distance(x, X_train[row]) / (factor * median)) ** 2)) for x in of_gaussians])
    return np.column_stack(columns)


def negative_log_posterior(logs, Z, Y, spread):
    """Minus the log probability of targets under a Gaussian process, and of its relevances, without constants."""
    from scipy.stats import multivariate_normal

    (n, d), (s, a, v) = Z.shape, np.exp(logs[-3:])
    C = np.ones((n, n))
    for i in range(n):
        for k in range(n):
            C[i, k] += a * sum(Z[i] * Z[k]) / d + s * np.exp(-sum(np.exp(logs[:d]) * (Z[i] - Z[k]) ** 2)) + v * (i == k)
    process = multivariate_normal(np.zeros(n), C)
    log_probability = sum(process.logpdf(y) + n / 2 * np.log(2 * np.pi) for y in Y.T)
    prior = sum((log - np.mean(logs[:d])) ** 2 for log in logs[:d]) / (2 * spread**2)
    return prior - log_probability


def anova_singles(x, quantiles, width):
    """Functions of one input, by the number of the bump; x holds the different samples."""
    if len(set(x)) < 2:
        return {}
    zero, one = x.mean(), x.std()
    if len(set(x)) == 2:
        rarer, common = sorted(set(x), key=list(x).count)
        if list(x).count(rarer) < 0.2 * len(x):
            zero, one = common, abs(rarer - common)
    functions = {0: lambda v: (v - zero) / one}
    ordered = np.sort(x)
    centers = sorted({ordered[int(np.rint(q * (len(x) - 1)))] for q in quantiles}) if len(set(x)) > 2 else []
    unit = width * (x.std() if len(centers) < 2 else (centers[-1] - centers[0]) / (len(centers) - 1))
    for k, center in enumerate(centers, start=1):
        functions[k] = lambda v, center=center: np.exp(-(((v - center) / unit) ** 2))
    return functions


def anova_basis(X_train, X, quantiles, width, order, min_count, extrapolation="clip"):
    """Inputs, bumps and values of the functions of one and two inputs that are worth having, in their order."""
    train = X_train[different_samples(X_train)]

    def factor(j, k, f, product):
        """Values of a single function, alone or in a product."""
        plain = k == 0 and not product
        linear = {"clip": plain, "bounded": plain, "linear": k == 0, "continue": True}.get(extrapolation, False)
        if linear and extrapolation != "bounded":
            return f(X[:, j])
        margin = 1 / (f(1.0) - f(0.0)) if linear else 0.0  # where the linear function has grown by one
        low, high = min(train[:, j]) - margin, max(train[:, j]) + margin
        return np.array([f(min(max(v, low), high)) for v in X[:, j]])

    singles = [
        (j, k, function)
        for j in range(X.shape[1])
        for k, function in anova_singles(train[:, j], quantiles, width).items()
    ]
    terms = [((j, -1), (k, -1), f(train[:, j]), factor(j, k, f, False)) for j, k, f in singles]
    for a, (i, m, f) in enumerate(singles):
        for j, k, g in singles[a + 1 :]:
            if i != j and order == 2:
                values = factor(i, m, f, True) * factor(j, k, g, True)
                terms.append(((i, j), (m, k), f(train[:, i]) * g(train[:, j]), values))
    kept = []
    for inputs, bumps, g, values in terms:
        plain = bumps == (0, -1)
        rare = np.sum(g**4) == 0 or np.sum(g**2) ** 2 / np.sum(g**4) < min_count
        multiple = any(np.linalg.norm(g - h * (g @ h) / (h @ h)) < 1e-7 * np.linalg.norm(g) for *_, h, _ in kept)
        if not multiple and (plain or not (rare or np.ptp(g) < 1e-7 * np.abs(g).max())):
            kept.append((inputs, bumps, g, values))
    inputs, bumps, _, values = zip(*kept, strict=True)
    return np.array(inputs), np.array(bumps), np.column_stack(values)


def elastic_net(H, y, lambda_1, lambda_2, sweeps=20000):
    """Minimise `|y - H c|^2 + lambda_2 |c|^2 + sum lambda_1 |c_i|` by coordinate descent, one lambda_1 per column."""
    A, b, c = H.T @ H, H.T @ y, np.zeros(H.shape[1])
    for _ in range(sweeps):
        before = c.copy()
        for i in range(len(c)):
            rest = b[i] - A[i] @ c + A[i, i] * c[i]
            c[i] = np.sign(rest) * max(abs(rest) - lambda_1[i] / 2, 0.0) / (A[i, i] + lambda_2)
        if np.max(np.abs(c - before), initial=0.0) < 1e-14:
            return c
    raise AssertionError("coordinate descent has not converged")


def leave_one_out_elastic_net(H, y, lambda_1, lambda_2):
    """Retrain without each sample: its residual, and whether the coefficients kept the signs they have on all data."""
    signs = np.sign(elastic_net(H, y, lambda_1, lambda_2))
    residuals, kept = np.empty(len(y)), np.empty(len(y), dtype=bool)
    for k in range(len(y)):
        others = np.arange(len(y)) != k
        c = elastic_net(H[others], y[others], lambda_1, lambda_2)
        residuals[k] = y[k] - H[k] @ c
        kept[k] = np.array_equal(np.sign(c)[lambda_1 > 0], signs[lambda_1 > 0])
    return residuals, kept


def two_stage_leave_one_out(G, H, y, signs, t, lambda_2, intercept):
    """Prediction for each sample by both stages retrained without it; terms G, directions H and their signs are fixed.

    Stage one has the coefficients `(H'H + lambda_2 I)^-1 (H'y - t signs)`, Hong (27); stage two is least squares.
    """
    predictions = np.empty(len(y))
    for k in range(len(y)):
        others = np.arange(len(y)) != k
        A, b = H[others].T @ H[others] + lambda_2 * np.eye(H.shape[1]), H[others].T @ y[others] - t * signs
        signal = H[others] @ np.linalg.solve(A, b)
        predictions[k] = predict(G[k : k + 1], weights(G[others], signal, 0.0, intercept), intercept)[0, 0]
    return predictions


def standardised(G, counts):
    """Columns of unit variance, every row written as often as it counts; constant ones as they are."""
    deviation = np.sqrt(np.average((G - np.average(G, axis=0, weights=counts)) ** 2, axis=0, weights=counts))
    return G / np.where(deviation > 0, deviation, 1.0)


def ridge_then_few(G, H, Y, first, second):
    """Predictions without each sample: ridge regression on H, then penalised least squares on G of what it fits."""
    predictions = np.empty_like(Y)
    for k in range(len(Y)):
        others = np.arange(len(Y)) != k
        signal = predict(H[others], weights(H[others], Y[others], first))
        predictions[k] = predict(G[k : k + 1], weights(G[others], signal, second))[0]
    return predictions


def ridge_then_few_hat(G, H, first, second):
    """The matrix that takes the targets to the fit of both stages."""
    eye = np.eye(len(G))
    return (eye - projection(G, second)) @ (eye - projection(H, first))


def member_fit(weight, columns, alpha, ridge, Y):
    """Weighted fit of penalised least squares to the targets, or to their ridge fit on other columns at a penalty."""
    signal = Y if ridge is None else predict(ridge[0], weights(ridge[0], Y, ridge[1]))
    return weight * predict(columns, weights(columns, signal, alpha))


def pool_then_few(G, members, Y, second):
    """Predictions without each sample: a mean of models (see `member_fit`), then least squares on G of what it fits."""
    predictions = np.empty_like(Y)
    for k in range(len(Y)):
        others, mean = np.arange(len(Y)) != k, 0.0
        for weight, columns, alpha, ridge in members:
            rest = None if ridge is None else (ridge[0][others], ridge[1])
            mean = mean + member_fit(weight, columns[others], alpha, rest, Y[others])
        predictions[k] = predict(G[k : k + 1], weights(G[others], mean, second))[0]
    return predictions


def pooled_out_of_fold(members, X, Y, counts, fold, alpha, most):
    """Predictions (k + 1, n, q) without each fold, for the mean of models: (weights by fold, basis, target, size)."""
    from sklearn.base import clone

    from termwise import forward_path

    scores = np.full((most + 1, *Y.shape), np.nan)
    for number in set(fold):
        inside = fold != number
        seen, new, mean = [], [], 0.0
        for weight, basis, target, size in members:
            fitted = clone(basis).fit(X[inside])
            G = fitted.transform(X[inside])
            aim = Y[inside] if target == "data" else ridge_signal(fitted, X[inside], Y[inside], counts[inside])
            path = forward_path(G, aim, rule="cost", alpha=alpha, max_terms=size, sample_weight=counts[inside])
            seen.append(G[:, path.terms])
            new.append(fitted.transform(X[~inside])[:, path.terms])
            mean = mean + weight[number] * predict(seen[-1], weights(seen[-1], aim, alpha, counts=counts[inside]))
        G, new = np.hstack(seen), np.hstack(new)
        path = forward_path(G, mean, rule="cost", alpha=alpha, max_terms=most, sample_weight=counts[inside])
        for k in range(most + 1):
            terms = path.terms[:k]
            w = weights(G[:, terms], mean, alpha, counts=counts[inside])
            scores[k, ~inside] = predict(new[:, terms], w)
    return scores


WRONG_LABELS = 0.1  # samples of each class that calibration takes to be wrongly labelled, one in Platt (2000)


def log_losses(scores, y, counts):
    """Negative log-likelihood of labels in {-1, 1} (m, n) after Platt's calibration, a share of that of the rates."""
    from scipy.optimize import minimize

    positive = y > 0
    n_class = np.where(positive, counts[positive].sum(), counts[~positive].sum())
    wrong = WRONG_LABELS / (n_class + 2 * WRONG_LABELS)
    smoothed = np.where(positive, 1 - wrong, wrong)
    rate = np.average(positive, weights=counts)
    base = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
    found = []
    for s in scores:

        def probabilities(parameters, s=s):
            return 1 / (1 + np.exp(-np.exp(parameters[0]) * s - parameters[1]))

        def loss(parameters):
            p = probabilities(parameters)
            return -counts @ (smoothed * np.log(p) + (1 - smoothed) * np.log(1 - p))

        bounds = [(-10, 5), (None, None)]
        p = probabilities(minimize(loss, [0.0, 0.0], bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-10}).x)
        found.append(-np.log(np.where(positive, p, 1 - p)) / base)
    return np.array(found)


def ridge_signal(basis, X, Y, counts):
    """Fit of ridge regression to all candidates at the best leave-one-out penalty."""
    from termwise import BasisRidge

    H = ridge_columns(basis, X, counts)
    return BasisRidge(alpha="loo").fit(H, Y, sample_weight=counts).predict(H)


def out_of_fold(basis, X, Y, counts, fold, rule, alpha, most, target="data"):
    """Predictions (k + 1, n, q) for every sample by paths grown on the other folds."""
    from sklearn.base import clone

    from termwise import forward_path

    scores = np.full((most + 1, *Y.shape), np.nan)
    for number in set(fold):
        inside = fold != number
        fitted = clone(basis).fit(X[inside], Y[inside])
        G, new = fitted.transform(X[inside]), fitted.transform(X[~inside])
        aim = Y[inside] if target == "data" else ridge_signal(fitted, X[inside], Y[inside], counts[inside])
        path = forward_path(G, aim, rule=rule, alpha=alpha, max_terms=most, sample_weight=counts[inside])
        for k in range(most + 1):
            size = min(k, len(path))
            w, intercept = path.coef(size)  # (q, size), (q,): Y is a matrix
            scores[k, ~inside] = new[:, path.terms[:size]] @ w.T + intercept
    return scores


def paired_standard_error(first, second, counts):
    """Standard error of the mean difference of two lists of errors, every sample written as often as it counts."""
    difference = np.repeat(np.asarray(first) - np.asarray(second), counts)
    mean = sum(difference) / len(difference)
    variance = sum((d - mean) ** 2 for d in difference) / len(difference)
    return mean, np.sqrt(variance / len(difference))


def objective(G, Y, S, rule, alpha, intercept=True, beta=1e-6):
    """What a rule's scores order the models of one size by, smaller is better, by refits and explicit matrices."""
    n, H = len(G), G[:, S]
    if rule == "loo":
        return np.sum(leave_one_out(H, Y, alpha, intercept) ** 2)
    if rule == "loo_error":
        predicted = Y - leave_one_out(H, Y, alpha, intercept)
        if Y.shape[1] == 1:
            return np.sum((predicted >= -1e-12) != (Y > 0))
        return np.sum(predicted.argmax(axis=1) != Y.argmax(axis=1))
    if rule == "kfold":  # five contiguous folds
        total = 0.0
        for F in np.array_split(np.arange(n), 5):
            others = np.setdiff1d(np.arange(n), F)
            w = weights(H[others], Y[others], alpha, intercept)
            total += np.sum((Y[F] - predict(H[F], w, intercept)) ** 2)
        return total
    P = projection(H, alpha, intercept)
    if rule == "sse":
        return np.sum((P @ Y) ** 2)
    if rule == "cost":
        return np.sum(Y * (P @ Y))
    if rule == "gcv":
        return n * np.sum((P @ Y) ** 2) / np.trace(P) ** 2
    H = H - H.mean(axis=0) if intercept else H
    volume = np.linalg.slogdet(H.T @ H + alpha * np.eye(len(S)))[1]
    if rule == "norm":
        return -volume
    if rule == "d_optimal":
        return np.sum(Y * (P @ Y)) - beta * volume
    raise ValueError(f"no formula for the rule {rule!r}: add it here")


def swapped(G, y, rule, alpha, chosen, fixed=0, intercept=True, beta=1e-6, tie=1e-9, usable=1e-10):
    """Exchange terms, each in its turn, by trying every candidate in its place: the terms and (old, new) of each."""
    Y = np.asarray(y, dtype=float).reshape(len(G), -1)
    chosen, swaps, settled = list(chosen), [], 0
    while settled < len(chosen) - fixed:
        old = chosen.pop(fixed)
        plain = smoother(G[:, chosen], alpha, intercept, "weights")
        free = [
            j
            for j in range(G.shape[1])
            if j not in chosen and np.sum((plain @ G[:, j]) ** 2) > usable * np.sum((G[:, j] - G[:, j].mean()) ** 2)
        ]
        values = {j: objective(G, Y, [*chosen, j], rule, alpha, intercept, beta) for j in free}
        least = min(values.values())
        new = next(j for j in free if values[j] <= least + tie * abs(least))
        better = values[old] - values[new] > tie * abs(values[old])
        chosen.append(new if better else old)
        settled = 1 if better else settled + 1
        swaps += [(old, new)] if better else []
    return chosen, swaps


def cross_validated_score(make, X, y, splits):
    """R2 or accuracy of a procedure that is carried out again without each fold."""
    observed, predicted = [], []
    for train, test in splits:
        observed.append(y[test])
        predicted.append(make().fit(X.iloc[train], y[train]).predict(X.iloc[test]))
    observed, predicted = np.concatenate(observed), np.concatenate(predicted)
    if observed.dtype.kind == "f":
        return 1 - np.sum((observed - predicted) ** 2) / np.sum((observed - observed.mean()) ** 2)
    return np.mean(observed == predicted)


def randomised_inference(G, y, select, variance, share, seed, counts=None):
    """Terms selected on y + gamma w, their least-squares coefficients on y - w / gamma, and standard errors.

    Rows are repeated as often as they count; w is the same for all repeats of a row, with the variance of their mean.
    """
    counts = np.ones(len(y), dtype=int) if counts is None else counts
    gamma = np.sqrt((1 - share) / share)
    w = np.random.RandomState(seed).normal(size=len(y)) * np.sqrt(variance / counts)
    chosen = select(y + gamma * w)
    H, v = repeat(counts, np.column_stack([np.ones(len(y)), G[:, chosen]]), y - w / gamma)
    coefficients = np.linalg.solve(H.T @ H, H.T @ v)
    covariance = variance * (1 + 1 / gamma**2) * np.linalg.inv(H.T @ H)
    return chosen, coefficients[1:], np.sqrt(np.diag(covariance))[1:]


# -- effects -----------------------------------------------------------------------------------------------------------


def purified(surface, first, second, sweeps=2000):
    """A function of two discrete inputs at the samples, as pure interaction and two main effects.

    Conditional means given either input are moved into its main effect, in turn, until none are left (Lengerich et al.
    2020).
    """
    pure, mains = surface - surface.mean(), [np.zeros(len(surface)), np.zeros(len(surface))]
    for _ in range(sweeps):
        for main, values in zip(mains, (first, second), strict=True):
            for value in set(values):
                rows = values == value
                moved = pure[rows].mean()
                pure[rows] -= moved
                main[rows] += moved
    return pure, *mains


def total_effect(predict, X, j):
    """Root of half the mean squared change of the prediction when input j comes from any sample."""
    changes = []
    for row in X:
        for other in X:
            moved = row.copy()
            moved[j] = other[j]
            changes.append(np.diff(predict(np.array([row, moved])))[0] ** 2)
    return np.sqrt(np.mean(changes) / 2)


def shape_knots(x, count, least):
    """Thresholds between neighbouring values, by walking through the sorted values; x holds the present samples."""
    values = sorted(set(x))
    share = len(x) / (count + 1)
    places, passed, counted = [], 0, 0.0
    total = sum(min(list(x).count(v), share) for v in values)
    for low, high in itertools.pairwise(values):
        passed += list(x).count(low)
        counted += min(list(x).count(low), share)
        if passed >= least and len(x) - passed >= least:
            places.append((counted, (low + high) / 2))
    if len(places) > count:
        aims = [total * k / (count + 1) for k in range(1, count + 1)]
        chosen = [next((t for c, t in places if c >= aim - 1e-9), places[-1][1]) for aim in aims]
        return sorted(set(chosen))
    return [t for _, t in places]


def shape_singles(x, functions, n_knots, least):
    """Functions of one input by name, and whether they are terms by themselves; x holds the present samples."""
    present = x[~np.isnan(x)]
    low, high, unit = min(present), max(present), np.std(present)
    knots = shape_knots(present, n_knots, least) if len(set(present)) > 2 else []
    edges = [low, *knots, high] if knots else []
    length = max(1, round(0.4 * (len(knots) + 1)))
    kinds = {
        "hinge": [("hinge >", t, lambda v, t=t: max(0.0, v - t) / unit, True) for t in knots]
        + [("hinge <", t, lambda v, t=t: max(0.0, t - v) / unit, True) for t in knots],
        "step": [(">", t, lambda v, t=t: float(v > t), True) for t in knots]
        + [("<=", t, lambda v, t=t: float(v <= t), False) for t in knots],
        "ramp": [
            ("ramp", a, lambda v, a=a, b=b: min(max((v - a) / (b - a), 0.0), 1.0), True)
            for a, b in zip(edges, edges[length:], strict=False)
        ],
    }
    found = [one for kind in ("hinge", "step", "ramp") if kind in functions for one in kinds[kind]]
    if "linear" in functions or not found:
        origin, scale = np.mean(present), unit
        if len(set(present)) == 2:
            origin, scale = low, high - low
        found = [("linear", 0.0, lambda v: (v - origin) / scale, True), *found]
    return found


def shape_basis(X_train, X, functions, n_knots, min_count, order=2, groups=None):
    """Factors, as (input, kind, place), and values of all functions of an `AnovaBasis` without bumps, in order."""
    train = X_train[different_samples(np.where(np.isnan(X_train), np.inf, X_train))]
    low, high = np.nanmin(train, axis=0), np.nanmax(train, axis=0)

    def values(data, j, f, clipped):
        ends = (low[j], high[j]) if clipped else (-np.inf, np.inf)
        return np.array([0.0 if np.isnan(v) else f(min(max(v, ends[0]), ends[1])) for v in data[:, j]])

    singles = [
        (j, kind, place, f, alone)
        for j in range(X.shape[1])
        if low[j] < high[j]
        for kind, place, f, alone in shape_singles(train[:, j], functions, n_knots, min_count)
    ]
    terms = [([(j, k, t)], values(train, j, f, True), values(X, j, f, k != "linear")) for j, k, t, f, a in singles if a]
    for (i, m, s, f, _), (j, k, t, g, _) in itertools.combinations(singles, 2):
        same = groups is not None and groups[i] == groups[j] >= 0
        if i != j and order == 2 and not same:
            on_train = values(train, i, f, True) * values(train, j, g, True)
            terms.append(([(i, m, s), (j, k, t)], on_train, values(X, i, f, True) * values(X, j, g, True)))
    kept = []
    for factors, g, found in terms:
        plain = len(factors) == 1 and factors[0][1] == "linear"
        rare = np.sum(g**4) == 0 or np.sum(g**2) ** 2 / np.sum(g**4) < min_count
        multiple = any(np.linalg.norm(g - h * (g @ h) / (h @ h)) < 1e-7 * np.linalg.norm(g) for _, h, _ in kept)
        if not multiple and (plain or not (rare or np.ptp(g) < 1e-7 * np.abs(g).max())):
            kept.append((factors, g, found))
    return [factors for factors, _, _ in kept], np.column_stack([found for _, _, found in kept])


def constrained_path(G, y, alpha, max_terms, low, high, inputs=None):
    """Terms and weights of every size: of all candidates with which a refit keeps to the bounds, the best by the cost.

    With `inputs` of every candidate, one of several inputs needs terms of each of these alone.
    """

    def refit(terms):
        A = G[:, terms] - G[:, terms].mean(axis=0)
        w = np.linalg.solve(A.T @ A + alpha * np.eye(len(terms)), A.T @ (y - y.mean()))
        return w, np.sum((y - y.mean() - A @ w) ** 2) + alpha * w @ w

    chosen, weights = [], [np.empty(0)]
    while len(chosen) < max_terms:
        costs = {}
        for j in set(range(G.shape[1])) - set(chosen):
            terms = [*chosen, j]
            w, cost = refit(terms)
            needed = {i for i in inputs[j] if (i,) in inputs} if inputs and len(inputs[j]) > 1 else set()
            there = {inputs[i][0] for i in chosen if len(inputs[i]) == 1} if inputs else set()
            if np.all((low[terms] <= w) & (w <= high[terms])) and needed <= there:
                costs[j] = cost
        if not costs:
            break
        chosen.append(min(costs, key=costs.get))
        weights.append(refit(chosen)[0])
    return chosen, weights


def factorial_effects(values, codes):
    """Effects of three inputs on a balanced full factorial design, at the samples: differences of conditional means."""
    means = {}
    for size in range(4):
        for key in itertools.combinations(range(3), size):
            groups = codes[:, list(key)]
            same = (groups[:, None] == groups[None]).all(axis=2)
            means[key] = same @ values / same.sum(axis=1) - sum(
                means[part] for smaller in range(size) for part in itertools.combinations(key, smaller)
            )
    return {key: effect for key, effect in means.items() if key}


def calibration_error(y, probabilities, classes, n_bins):
    """Mean difference of observed frequency and probability over bins of equally many samples and over classes."""
    errors = []
    for k, label in enumerate(classes):
        bins = np.array_split(np.argsort(probabilities[:, k], kind="stable"), n_bins)
        errors.append(sum(abs((y[b] == label).sum() - probabilities[b, k].sum()) for b in bins) / len(y))
    return np.mean(errors)


def loss_value(name, y, eta, scale=1.0, level=0.5):
    """Loss of one target from its definition; of classes, y holds the scores of the right one."""
    u = y - eta
    if name == "squared":
        return u**2 / 2
    if name == "logistic":
        return np.log(1 + np.exp(-y * eta))
    if name == "poisson":
        return np.exp(eta) - y * eta
    if name == "gamma":
        return y / np.exp(eta) + eta
    if name == "huber":
        return np.where(np.abs(u) <= 1.345 * scale, u**2 / 2, 1.345 * scale * (np.abs(u) - 1.345 * scale / 2))
    bandwidth = 0.1 * scale
    return scale * (level * u + bandwidth * np.log(1 + np.exp(-u / bandwidth)))


def loss_weights(G, Y, loss, alpha, counts=None, offset=0.0, intercept=True):
    """Intercept and weights, (1 + k, q), of a loss with penalties of standardised columns, by a general optimiser."""
    n, (k, q) = len(G), (G.shape[1], Y.shape[1])
    counts = np.ones(n) if counts is None else counts
    mean = counts @ G / counts.sum() if intercept else 0.0
    penalties = (alpha * (counts @ (G - mean) ** 2 / counts.sum()))[:, None]
    offset = np.zeros((n, 1)) if np.isscalar(offset) else np.reshape(offset, (n, -1))

    def objective(x):
        w = x.reshape(1 + k, q)
        eta = offset + intercept * w[0] + G @ w[1:]
        slope = counts[:, None] * loss.gradient(Y, eta)
        value = counts @ loss.value(Y, eta) + np.sum(penalties * w[1:] ** 2) / 2
        return value, np.vstack([intercept * slope.sum(axis=0), G.T @ slope + penalties * w[1:]]).ravel()

    found = minimize(objective, np.zeros((1 + k) * q), jac=True, method="BFGS", options={"gtol": 1e-8}).x
    return found.reshape(1 + k, q)


def loss_forward(G, Y, loss, alpha, steps):
    """Terms chosen one by one by the drop of the bound on a loss: explicit matrices, weights by a general optimiser."""
    n, ones = len(G), np.ones((len(G), 1))
    variance, chosen, metrics = G.var(axis=0), [], {}
    for k in range(steps):
        w = loss_weights(G[:, chosen], Y, loss, alpha)
        eta = w[0] + G[:, chosen] @ w[1:]
        metrics[k] = np.full(n, loss.curvature_bound) if loss.curvature_bound else loss.metric(Y, eta)
        metric = metrics[0 if k == 0 else 2 ** int(np.log2(k))]  # renewed when the number of terms has doubled
        H = np.hstack([ones, G[:, chosen]])
        penalty = np.diag(np.append(0.0, alpha * variance[chosen]))
        inverse = np.linalg.inv(H.T * metric @ H + penalty)
        scores = np.full(G.shape[1], -np.inf)
        for j in range(G.shape[1]):
            if j not in chosen:
                cross = H.T @ (metric * G[:, j])
                s = metric @ G[:, j] ** 2 - cross @ inverse @ cross
                scores[j] = np.sum((G[:, j] @ loss.gradient(Y, eta)) ** 2) / (alpha * variance[j] + s)
        chosen.append(int(np.argmax(scores)))
    return chosen


def loss_left_out(G, Y, loss, alpha):
    """Linear predictor of every sample under the model trained without it; the penalties stay those of all samples."""
    eta = np.empty(Y.shape)
    for i in range(len(G)):
        others = np.arange(len(G)) != i
        w = loss_weights(G[others], Y[others], loss, alpha * G.var(axis=0) / G[others].var(axis=0))
        eta[i] = w[0] + G[i] @ w[1:]
    return eta


def product_columns(basis, X, counts, groups=None):
    """Single functions in their standard deviations, and all their pairwise products."""
    pairs = {(j, b) for j, b in zip(basis.inputs_.ravel(), basis.bumps_.ravel(), strict=True) if j >= 0}
    singles = []
    for j, b in sorted(pairs):
        column = basis.evaluate_singles(X, np.array([j]), np.array([b]))[:, 0]
        singles.append((j if groups is None else groups[j], column / np.repeat(column, counts.astype(int)).std()))
    columns = [g for _, g in singles]
    columns += [g * h for (i, g), (j, h) in itertools.combinations(singles, 2) if i != j]
    return np.column_stack(columns)


def ridge_columns(basis, X, counts):
    """The columns that the ridge fit of `TermwiseRegressor` shrinks: those of a basis in one size, or all products."""
    if getattr(basis, "order", 1) == 2:
        return product_columns(basis, X, counts, basis.groups)
    return standardised(basis.transform(X), counts)


def boosted_splits(X, Y, least, n_trees, rate, depth=3):
    """Splits of boosted trees, grown by trying every one: input, threshold, error removed, and rows on either side.

    A missing value is above every threshold.
    """
    filled = np.where(np.isnan(X), np.inf, X)
    residuals = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    places = [(j, t) for j, x in enumerate(X.T) for t in shape_knots(x[~np.isnan(x)], len(x), least)]
    splits = []

    def squares(rows):
        return np.sum((residuals[rows] - residuals[rows].mean(axis=0)) ** 2)

    def leaves(rows, level):
        found = []
        for j, t in places if level < depth else ():
            low, high = rows[filled[rows, j] <= t], rows[filled[rows, j] > t]
            if min(len(low), len(high)) >= least:
                found.append((j, t, squares(rows) - squares(low) - squares(high), low, high))
        if not found:
            return [rows]
        splits.append(max(found, key=lambda split: split[2]))
        *_, low, high = splits[-1]
        return leaves(low, level + 1) + leaves(high, level + 1)

    for _ in range(n_trees):
        for rows in leaves(np.arange(len(X)), 0):
            residuals[rows] -= rate * residuals[rows].mean(axis=0)
    return splits


def boosted_thresholds(X, Y, count, least, n_trees=30, rate=0.3, distance=0.02):
    """Thresholds of each input at which boosted trees remove most of the squared error."""
    filled, removed = np.where(np.isnan(X), np.inf, X), {}
    for j, t, gain, *_ in boosted_splits(X, Y, least, n_trees, rate):
        removed[j, t] = removed.get((j, t), 0.0) + gain
    chosen = [[] for _ in X.T]
    for j, t in sorted(removed, key=removed.get, reverse=True):
        far = all(
            abs(np.sum(filled[:, j] <= t) - np.sum(filled[:, j] <= other)) >= distance * len(X) for other in chosen[j]
        )
        if far and removed[j, t] > 0 and sum(map(len, chosen)) < count:
            chosen[j].append(t)
    return chosen
