"""Criteria: values, order, and what happens without degrees of freedom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import criteria as oracle_criteria
from oracles import leave_one_out, projection

from termwise.selection import CRITERIA, bic, fpe, gcv, loo, uev


@pytest.mark.parametrize("name", CRITERIA)
def test_criterion_equals_the_definition(name, rng):
    G, y = rng.normal(size=(25, 4)), rng.normal(size=25)
    P = projection(G, 0.7)
    sse, dof = y @ P @ P @ y, 25 - np.trace(P)
    loo_sse = np.sum(leave_one_out(G, y, 0.7) ** 2)
    assert CRITERIA[name](sse, dof, 25, loo_sse) == pytest.approx(oracle_criteria(G, y, 0.7)[name], rel=1e-10)


@given(n=st.integers(2, 10_000), share=st.floats(0, 0.999), sse=st.floats(1e-100, 1e100))
def test_order_of_the_criteria(n, share, sse):
    """UEV <= FPE <= GCV always; GCV <= BIC up to dof = n (log n - 2) / (log n - 1), which needs n >= 8."""
    dof = share * n
    slack = 1 + 1e-12
    assert uev(sse, dof, n) <= fpe(sse, dof, n) * slack
    assert fpe(sse, dof, n) <= gcv(sse, dof, n) * slack
    if n >= 8 and dof <= n * (np.log(n) - 2) / (np.log(n) - 1):
        assert gcv(sse, dof, n) <= bic(sse, dof, n) * slack


def test_criteria_work_on_arrays_and_never_divide_by_zero():
    dof = np.array([1.0, 9.0, 10.0, 11.0])
    for name in ("uev", "fpe", "gcv", "bic"):
        values = CRITERIA[name](2.0, dof, 10, None)
        assert np.isfinite(values).tolist() == [True, True, False, False], name
    assert loo(2.0, dof, 10, np.array([5.0, 6.0])).tolist() == [0.5, 0.6]
