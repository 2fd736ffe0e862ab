"""The steps of a model as functions of C, and their derivatives.

Each step has a function from numbers z to its terms g. For gradients, it has a second function, from derivatives by its
terms to those by its inputs: z holds the inputs of the step and dg the derivatives of an output by its terms; dz
receives those by its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from termwise.basis.encoder import VALUE
from termwise.basis.expressions import BY, Expression, SourceWriter, derivative, derivatives_of_sums, z
from termwise.deploy.c_interface import CNames, block, function, index_of
from termwise.deploy.document import specs
from termwise.deploy.formulas import BOUNDED_LINKS, ETA
from termwise.deploy.program import Program
from termwise.deploy.steps import Concatenate, Lags, LevelEffects, PairProducts, ProgramStep

ORDER = [  # the numbers of the @q outputs y in ascending order, by insertion
    "for (int k = 0; k < @q; ++k) {",
    "    int i = k;",
    "    while ((i > 0) && (y[order[i - 1]] > y[k])) {",
    "        order[i] = order[i - 1];",
    "        --i;",
    "    }",
    "    order[i] = k;",
    "}",
]


class ExpressionWriter(SourceWriter):
    """Writes the expression of a step, for its value number k."""

    operations: ClassVar[Mapping[str, str]] = {
        **SourceWriter.operations,
        "exp": "$exp({0})",
        "log": "$log({0})",
        "sqrt": "$sqrt({0})",
        "sin": "$sin({0})",
        "expit": "($one / ($one + $exp(-{0})))",
        "maximum": "(({0} < {1}) ? {1} : {0})",  # NaN stays NaN
        "minimum": "(({0} > {1}) ? {1} : {0})",
        "where": "({0} ? {1} : {2})",
        "isnan": "isnan({0})",
        "equal": "({0} == {1})",
        "greater": "({0} > {1})",
    }
    reductions: ClassVar[Mapping[str, tuple[str, str]]] = {
        "sum_squares": ("$zero", "{total} += {0} * {0};"),
        "dot": ("$zero", "{total} += {0} * {1};"),
        "power_product": ("$one", "if ({1} > $zero) {total} *= $pow({0}, {1});"),
    }
    constant = "const $real {name} = {value};"
    changing = "$real {name} = {value};"

    def __init__(self, step: ProgramStep, c: CNames) -> None:
        super().__init__()
        self.step, self.c, self.tables = step, c, step.tables
        self._codes = False  # whether a number is compared with a code

    def variable(self, name: str) -> str:
        """Write an entry of a table or of z."""
        if name == "z":
            return "z[j]" if self.inside else "z[@columns[k]]" if "columns" in self.tables else "z[k]"
        return self.entry(name, "j")

    def entry(self, name: str, j: str) -> str:
        """Write an entry of a table, that of the input j inside a sum; whole numbers, except codes, are factors."""
        if self.tables[name].ndim == 2:
            index = index_of("k", self.step.n_inputs, j)
        else:
            index = "k" if self.step.is_per_term(name) else j
        spec = specs(type(self.step))[name]
        return f"{'($real)' if spec.kind is int and not spec.of else ''}@{name}[{index}]"

    def number(self, value: float) -> str:
        """Write a constant; codes are whole numbers."""
        return str(value) if self._codes else self.c.number(value)

    def _arguments(self, node: Expression, template: str) -> list[str]:
        self._codes = node.operation == "equal" and isinstance(node.arguments[1].arguments[0], int)
        texts = super()._arguments(node, template)
        self._codes = False
        return texts

    def loop(self, names: list[str], body: list[str]) -> list[str]:
        """Write a loop over the inputs."""
        return block(f"for (int j = 0; j < {self.step.n_inputs}; ++j)", body)

    def all_values(self, target: str, count: int) -> list[str]:
        """Write the loop that computes all values."""
        before, value = self.write(self.step.expression)
        return block(f"for (int k = 0; k < {count}; ++k)", [*before, f"{target}[k] = {value};"])


def write(step: Any, c: CNames, name: str) -> str:
    """Return a step as a function from numbers z to numbers g."""
    match step:
        case PairProducts():
            singles = len(step.columns)
            lines = [
                f"$real singles[{max(1, singles)}];",
                *ExpressionWriter(step, c).all_values("singles", singles),
                f"for (int k = 0; k < {step.n_terms}; ++k) {{",
                "    g[k] = singles[@first[k]];",
                "    if (@second[k] >= 0) g[k] *= singles[@second[k]];",
                "}",
            ]
            return c.step(name, lines, **step.tables, first=step.first, second=step.second)
        case Lags():  # here z is a window of rows, the newest last
            place = f"{index_of(f'({step.longest} - @lags[k])', step.n_inputs, '@columns[k]')}"
            return c.step(name, [f"for (int k = 0; k < {step.n_terms}; ++k) g[k] = z[{place}];"], **vars(step))
        case LevelEffects():
            lines = [
                f"for (int k = 0; k < {step.n_terms}; ++k) {{",
                "    const $real level = z[@columns[k]];",
                "    g[k] = (@sizes[k] == 0) ? level : $zero;",
                "    if ((level >= $zero) && (level < ($real)@sizes[k])) g[k] = @effects[@offsets[k] + (int)level];",
                "}",
            ]
            return c.step(name, lines, **vars(step) | {"offsets": step.offsets})
        case Concatenate():
            return _concatenate(step, c, name)
    return c.step(name, ExpressionWriter(step, c).all_values("g", step.n_terms), **step.tables)


def _concatenate(step: Concatenate, c: CNames, name: str) -> str:
    """Write the steps of all branches, and the function that calls them."""
    inner, lines = [], [f"$real all[{sum(part.n_terms for part in step.parts) or 1}]{'' if step.parts else ' = {0}'};"]
    start = 0
    for p, part in enumerate(step.parts):
        sizes = [len(part.columns), *(one.n_terms for one in part.steps)]
        inner += [write(one, c, f"{name}_{p}_{i}") for i, one in enumerate(part.steps)]
        lines += ["{", f"    $real a0[{sizes[0] or 1}];"]  # a constant needs no columns
        lines += [f"    for (int i = 0; i < {sizes[0]}; ++i) a0[i] = z[@columns_{p}[i]];"]
        for i, size in enumerate(sizes[1:]):
            lines += [f"    $real a{i + 1}[{size}];", f"    {c.name}_{name}_{p}_{i}(a{i}, a{i + 1});"]
        place = f"{start} + i" if start else "i"
        lines += [f"    for (int i = 0; i < {sizes[-1]}; ++i) all[{place}] = a{len(sizes) - 1}[i];", "}"]
        start += sizes[-1]
    lines += [f"for (int k = 0; k < {step.n_terms}; ++k) g[k] = all[@order[k]];"]
    columns = {f"columns_{p}": part.columns for p, part in enumerate(step.parts)}
    return "\n".join([*inner, c.step(name, lines, **columns, order=step.order)])


# -- derivatives -------------------------------------------------------------------------------------------------------


class DerivativeWriter(ExpressionWriter):
    """Writes the derivatives of the expression of a step, for its value number k and the input number i of a sum."""

    def variable(self, name: str) -> str:
        """Write an entry of a table or of z."""
        if name == "same":
            return "((i == j) ? $one : $zero)"
        if not name.endswith(BY):
            return super().variable(name)
        name = name.removesuffix(BY)
        return "z[i]" if name == "z" else self.entry(name, "i")

    def elementwise(self, given: str, count: int) -> list[str]:
        """Write the loop over all values, of functions of one input each."""
        before, slope = self.write(derivative(self.step.expression, z))
        target = self.variable("z").replace("z[", "dz[", 1)
        return block(f"for (int k = 0; k < {count}; ++k)", [*before, f"{target} += {given}[k] * ({slope});"])

    def sums(self) -> list[str]:
        """Write the loops over all terms and inputs, of functions of sums over inputs."""
        lines = []
        for number, (outer, inner) in enumerate(derivatives_of_sums(self.step.expression)):
            before, slope = self.write(outer)
            lines += [*before, f"const $real d_{number} = dg[k] * ({slope});"]
            before, slope = self.write(inner)
            body = [*before, f"dz[i] += d_{number} * ({slope});"]
            lines += block(f"for (int i = 0; i < {self.step.n_inputs}; ++i)", body)
        return block(f"for (int k = 0; k < {self.step.n_terms}; ++k)", lines)


class LinkWriter(ExpressionWriter):
    """Writes the derivative of a link, whose variable is the linear predictor."""

    def __init__(self, c: CNames) -> None:
        SourceWriter.__init__(self)
        self.c, self._codes = c, False

    def variable(self, name: str) -> str:
        """Write the linear predictor."""
        return "y[i]"


def write_gradient(step: Any, c: CNames, name: str) -> Iterator[str]:
    """Yield the function of a step, after those of the steps inside it."""
    lines = ["(void)z;", "(void)dg;", f"for (int j = 0; j < {step.n_inputs}; ++j) dz[j] = $zero;"]
    match step:
        case PairProducts():
            singles = len(step.columns)
            lines += [
                f"$real singles[{max(1, singles)}];",
                f"$real ds[{max(1, singles)}] = {{0}};",
                *ExpressionWriter(step, c).all_values("singles", singles),
                f"for (int k = 0; k < {step.n_terms}; ++k) {{",
                "    const int first = @first[k];",
                "    const int second = @second[k];",
                "    ds[first] += (second < 0) ? dg[k] : (dg[k] * singles[second]);",
                "    if (second >= 0) ds[second] += dg[k] * singles[first];",
                "}",
                *DerivativeWriter(step, c).elementwise("ds", singles),
            ]
        case Concatenate():
            for p, part in enumerate(step.parts):
                for i, one in enumerate(part.steps):
                    yield from write_gradient(one, c, f"{name}_{p}_{i}")
            lines += _concatenate_gradient(step, c, name)
        case LevelEffects():
            lines += [f"for (int k = 0; k < {step.n_terms}; ++k) if (@sizes[k] == 0) dz[@columns[k]] += dg[k];"]
        case _ if step.sums:
            lines += DerivativeWriter(step, c).sums()
        case _:
            lines += DerivativeWriter(step, c).elementwise("dg", step.n_terms)
    head = f"static void {c.name}_{name}_gradient(const $real *z, const $real *dg, $real *dz)"
    yield function(head, c.with_tables(name, lines))


def _concatenate_gradient(step: Concatenate, c: CNames, name: str) -> list[str]:
    """Write the body of the function that differentiates all branches."""
    total = max(1, sum(part.n_terms for part in step.parts))
    lines = [f"$real all[{total}] = {{0}};", f"for (int k = 0; k < {step.n_terms}; ++k) all[@order[k]] += dg[k];"]
    start = 0
    for p, part in enumerate(step.parts):
        names = [f"{c.name}_{name}_{p}_{i}" for i in range(len(part.steps))]
        sizes = [len(part.columns), *(one.n_terms for one in part.steps)]
        lines += ["{"]
        lines += [f"    $real {kind}{i}[{size or 1}];" for i, size in enumerate(sizes) for kind in "ab"]
        lines += ["    (void)a0;", f"    for (int i = 0; i < {sizes[0]}; ++i) a0[i] = z[@columns_{p}[i]];"]
        lines += [f"    {one}(a{i}, a{i + 1});" for i, one in enumerate(names)]
        place = f"{start} + i" if start else "i"
        lines += [f"    for (int i = 0; i < {sizes[-1]}; ++i) b{len(names)}[i] = all[{place}];"]
        lines += [f"    {one}_gradient(a{i}, b{i + 1}, b{i});" for i, one in reversed(list(enumerate(names)))]
        lines += [f"    for (int i = 0; i < {sizes[0]}; ++i) dz[@columns_{p}[i]] += b0[i];", "}"]
        start += sizes[-1]
    return lines


def gradient_functions(program: Program, c: CNames, head: str) -> list[str]:
    """Return the functions of all steps, and the public one with this prototype."""
    program.check_single_rows("gradient")
    schema, (q, k), n = program.schema, program.linear.weights.shape, len(program.steps)
    d, sizes = len(schema.inputs), [len(schema.columns), *(step.n_terms for step in program.steps)]
    starts = [c.number(0.0) if one.kind == "number" else "NAN" for one in schema.inputs]
    lines = [f"static const $real start[] = {{{', '.join(starts)}}};"]
    lines += [f"$real {kind}{i}[{size or 1}] = {{0}};" for i, size in enumerate(sizes) for kind in "zd"]
    lines += [f"const int status = {c.name}_read(x, z0);", "if (status != 0) return status;"]
    lines += [f"{c.name}_step_{i + 1}(z{i}, z{i + 1});" for i in range(n)]
    row, factor, body = "i", "", []
    if program.link != "identity" or program.linear.limits is not None:
        lines += [f"$real y[{q}];", f"{c.name}_linear(z{n}, y);"]
    if program.link == "sorted":
        lines += [f"int order[{q}] = {{0}};", *(line.replace("@q", str(q)) for line in ORDER)]
        row = "order[i]"
    elif program.link != "identity":
        before, value = LinkWriter(c).write(derivative(BOUNDED_LINKS[c.dtype][program.link], ETA))
        factor, body = " * slope", [*before, f"const $real slope = {value};"]
    if program.linear.limits is not None:  # at which predictions are constant
        low, high = (f"{c.name}_linear_limits[{place}]" for place in (row, f"{q} + {row}"))
        body += [f"const $real inside = ((y[{row}] > {low}) && (y[{row}] < {high})) ? $one : $zero;"]
        factor += " * inside"
    body += [f"for (int k = 0; k < {k}; ++k) d{n}[k] = {c.name}_linear_weights[{index_of(row, k, 'k')}]{factor};"]
    body += [f"{c.name}_step_{i}_gradient(z{i - 1}, d{i}, d{i - 1});" for i in range(n, 0, -1)]
    body += [f"for (int j = 0; j < {d}; ++j) g[{index_of('i', d, 'j')}] = start[j];"]
    of_numbers = f"if ({c.name}_codes[j] == {VALUE}) " if (schema.categories != VALUE).any() else ""
    body += [f"for (int j = 0; j < {sizes[0]}; ++j) {of_numbers}g[{index_of('i', d, f'{c.name}_inputs[j]')}] += d0[j];"]
    lines += [*block(f"for (int i = 0; i < {q}; ++i)", body), "return 0;"]
    steps = [text for i, step in enumerate(program.steps) for text in write_gradient(step, c, f"step_{i + 1}")]
    return [*steps, function(head, lines)]
