"""scikit-learn's callbacks (from 1.9 on): progress bars and early stopping; without them, nothing to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


def step_callback(estimator: Any, max_steps: int | None) -> Callable[[], bool]:
    """Begin a fit of up to that many steps (None: not known); return a function to call after each, true to stop."""
    if not hasattr(estimator, "_init_callback_context"):
        return lambda: False
    context = estimator._init_callback_context(max_subtasks=max_steps)
    context.call_on_fit_task_begin(estimator=estimator)

    def after_step() -> bool:
        step = context.subcontext(task_name="term")
        step.call_on_fit_task_begin(estimator=estimator)
        return bool(step.call_on_fit_task_end(estimator=estimator))

    return after_step


def end_of_fit(estimator: Any) -> None:
    """Tell the callbacks that the fit is over."""
    context = getattr(estimator, "_callback_fit_ctx", None)
    if context is not None:
        context.call_on_fit_task_end(estimator=estimator)
