"""Free runs in exported source code: a state with past values, and a step that feeds the prediction back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from termwise.deploy.program import Program

if TYPE_CHECKING:
    from termwise.deploy.c import CNames


def check_simulation(program: Program, simulation: Any) -> tuple[float, float]:
    """Return the limits of simulated outputs, infinite for True; raise if the model is not one of a series."""
    if program.series is None or program.labels is not None or not program.linear.one_output:
        raise ValueError(
            "simulation must be False for a model without past values of its own output, got "
            f"{simulation!r}: fit a NarxRegressor, or an estimator on a LagBasis."
        )
    if simulation is True:
        return -np.inf, np.inf
    limits = np.asarray(simulation, dtype=np.float64)
    if limits.shape != (2,) or not limits[0] < limits[1]:
        raise ValueError(
            f"simulation must be a bool or the lowest and the highest output, got {simulation!r}: True sets no limits."
        )
    return float(limits[0]), float(limits[1])


def _sizes(program: Program) -> tuple[int, int, int]:
    """Return the number of past rows, the number of columns, and the position of the output among them."""
    names = [one.name for one in program.schema.inputs]
    return 0 if program.lags is None else program.lags.longest, len(names), names.index(str(program.series))


# -- C -----------------------------------------------------------------------------------------------------------------


def c_simulation(program: Program, c: CNames, simulation: Any) -> tuple[str, list[str], str]:
    """Return the type of the state, the prototypes and the functions of a simulation in C."""
    from termwise.deploy.c import function  # which imports from here

    low, high = check_simulation(program, simulation)
    past, d, output = _sizes(program)
    state = f"typedef struct {{ {c.real} rows[{(past + 1) * d}]; }} {c.name}_state;\n\n"
    heads = [
        f"void {c.name}_init({c.name}_state *state, const {c.real} *past)",
        f"int {c.name}_step({c.name}_state *state, const {c.real} *inputs, {c.real} *y)",
    ]
    copy = f"for (int i = 0; i < {past * d}; ++i) state->rows[i] = past[i];" if past else "(void)past;"
    rest = f"for (int i = {past * d}; i < {(past + 1) * d}; ++i) state->rows[i] = $zero;"
    limits = [f"if (!(*y >= {c.number(low)})) *y = {c.number(low)};"] * bool(np.isfinite(low))
    limits += [f"if (*y > {c.number(high)}) *y = {c.number(high)};"] * bool(np.isfinite(high))
    step = [
        f"{c.real} *const row = &state->rows[{past * d}];",
        *([] if d > 1 else ["(void)inputs;"]),
        *(f"row[{j}] = inputs[{j - (j > output)}];" for j in range(d) if j != output),
        f"row[{output}] = NAN;",
        f"const int status = {c.name}_predict(state->rows, y);",
        "if (status != 0) return status;",
        *limits,
        f"row[{output}] = *y;",
        *[f"for (int i = 0; i < {past * d}; ++i) state->rows[i] = state->rows[i + {d}];"] * bool(past),
        "return 0;",
    ]
    return state, heads, "\n".join([function(heads[0], [copy, rest]), function(heads[1], step)])


def c_comment(program: Program) -> list[str]:
    """Return the lines of the comment of a C file about its simulation."""
    past, d, output = _sizes(program)
    others = f"the {d - 1} other inputs in their order" if d > 1 else "nothing, there are no other inputs"
    return [
        f"A simulation begins with init: past holds {past} rows of x, oldest first. Each step takes the next row",
        f"without x[{output}] ({others}), returns the output in y and keeps it as a past value.",
        "",
    ]


# -- Python ------------------------------------------------------------------------------------------------------------


def python_simulation(program: Program, simulation: Any) -> str:
    """Return the class of a simulation in Python."""
    low, high = check_simulation(program, simulation)
    past, d, output = _sizes(program)
    value = "predict([*self.rows, row])"
    value = f"max({low!r}, {value})" if np.isfinite(low) else value
    value = f"min({value}, {high!r})" if np.isfinite(high) else value
    return f'''class Simulation:
    """A free run: every step feeds its prediction back as a past value.

    It begins with at least {past} past rows, oldest first, each a sequence in the order of INPUTS.
    """

    def __init__(self, past):
        if len(past) < {past}:
            raise ValueError(f"past must have at least {past} rows, got {{len(past)}}")
        self.rows = [list(row) for row in past][len(past) - {past} :]

    def step(self, inputs=()):
        """Return the next output, given the {d - 1} inputs other than the output, in their order."""
        row = list(inputs)
        if len(row) != {d - 1}:
            raise ValueError(f"inputs must have {d - 1} values, got {{len(row)}}")
        row.insert({output}, None)
        row[{output}] = {value}
        self.rows = [*self.rows, row][1:]
        return row[{output}]'''
