"""Particle swarm optimisation with time-varying acceleration, Hong, Chen and Harris (2013), appendix B."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FASTEST = 0.5  # largest velocity, as a share of the search space
NUDGE = 0.1  # a particle that has come to rest gets up to this share of it, nu in (47)


def minimise(
    cost: Callable[[Floats], float], upper: Floats, particles: int, iterations: int, rng: np.random.RandomState
) -> tuple[Floats, float]:
    """Minimise `cost` over the box from 0 to `upper`; return the best position and its cost.

    Early on particles follow their own best position, later that of the swarm: (44) to (48).
    """
    limit = FASTEST * upper
    at = rng.uniform(size=(particles, len(upper))) * upper
    speed = np.zeros_like(at)
    own, own_cost = at.copy(), np.array([cost(x) for x in at])
    for step in range(iterations):
        best = own[own_cost.argmin()]
        progress = step / iterations
        inertia, to_own, to_best = rng.uniform(), 2.5 - 2 * progress, 0.5 + 2 * progress
        pull = to_own * (own - at) * rng.uniform(size=at.shape) + to_best * (best - at) * rng.uniform(size=at.shape)
        speed = np.clip(inertia * speed + pull, -limit, limit)
        restart = NUDGE * limit * rng.uniform(-1, 1, size=at.shape)
        speed = np.where(speed == 0, restart, speed)
        at = np.clip(at + speed, 0, upper)
        costs = np.array([cost(x) for x in at])
        better = costs < own_cost
        own[better], own_cost[better] = at[better], costs[better]
    return own[own_cost.argmin()], float(own_cost.min())
