"""The interface of a model in C: its name, its declarations, the comment that describes them, and the header file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from termwise.deploy.program import Program

# Reserved words of C, from C99 to C23, and those of C++, in which the header can be included.
KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict return
    short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq
"""
HEADER_TITLE = "The interface of a model written by termwise, in C99."


def check_name(name: object) -> str:
    """Return the prefix of all names, or raise if it is no name of C."""
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII)):
        raise ValueError(f"name must be a name of C, got {name!r}: letters, digits and underscores, a letter first.")
    if name in KEYWORDS.split():
        raise ValueError(f"name must not be a keyword of C or C++, got {name!r}: add a word, as in '{name}_model'.")
    return name


def check_header(path: Path) -> None:
    """Raise if the header would replace a file that termwise did not write."""
    if path.is_file() and HEADER_TITLE.encode() not in path.read_bytes()[:200]:
        raise ValueError(
            f"{path} must be free for the header of the model, got a file that termwise did not write: move it, or "
            "export to another name."
        )


@dataclass(frozen=True)
class Interface:
    """The functions and objects that a file of C offers to others."""

    name: str
    real: str
    functions: tuple[str, ...]  # declarations without the semicolon: predictions, the gradient, a simulation
    n_predictions: int
    classes: int  # number of class labels; 0 for a regression
    state: str = ""  # type of the state of a simulation
    about: tuple[str, ...] = ()  # lines of the comment about a simulation

    @classmethod
    def from_program(cls, program: Program, name: str, real: str, gradient: bool) -> Interface:
        """Return the interface of a model."""
        labels = program.labels
        functions = [f"int {name}_predict(const {real} *x, {real} *y)"]
        if labels is not None:
            functions = [f"int {name}_predict(const {real} *x, int *label)"]
            functions += [f"int {name}_decision_function(const {real} *x, {real} *y)"]
            proba = f"int {name}_predict_proba(const {real} *x, {real} *p)"
            functions += [proba] if labels.sharpness is not None else []
        n_predictions = len(functions)
        functions += [f"int {name}_gradient(const {real} *x, {real} *g)"] * gradient
        return cls(name, real, tuple(functions), n_predictions, 0 if labels is None else len(labels.classes))

    @property
    def declarations(self) -> str:
        """The lines that declare everything."""
        lines = [f"extern const char *const {self.name}_classes[{self.classes}];"] if self.classes else []
        return self.state + "".join(f"{line}\n" for line in [*lines, *(f"{head};" for head in self.functions)])

    def header(self, program: Program) -> str:
        """Return the header file, which has the numbers of inputs and outputs as macros."""
        upper, lags = self.name.upper(), program.lags
        sizes = {"INPUTS": len(program.schema.inputs), "OUTPUTS": len(program.linear.intercept)}
        sizes |= {"ROWS": lags.longest + 1} if lags is not None else {}
        sizes |= {"CLASSES": self.classes} if self.classes else {}
        macros = "".join(f"#define {upper}_N_{key} {size}\n" for key, size in sizes.items())
        return (
            f"{comment(program, self, HEADER_TITLE)}\n#ifndef {upper}_H\n#define {upper}_H\n\n{macros}\n"
            f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{self.declarations}\n#ifdef __cplusplus\n}}\n#endif\n\n'
            "#endif\n"
        )


def comment(program: Program, interface: Interface, title: str) -> str:
    """Write the comment at the top of a file, which describes the inputs and the results."""
    d, q, lags, labels = len(program.schema.inputs), len(program.linear.intercept), program.lags, program.labels
    lines = [title, "", *(f"    {head};" for head in interface.functions), ""]
    rows = "" if lags is None else f"{lags.longest + 1} rows of "
    order = "" if lags is None else " each, oldest first; the newest row is predicted"
    lines += [f"x holds {rows}{d} inputs{order}:", ""]
    for j, one in enumerate(program.schema.inputs):
        codes = ", ".join(f"{i} {kind}" for i, kind in enumerate(one.categories or ()))
        kinds = f" is the number of a category: {codes}" if codes else ""
        kinds += "; any other number is an unknown one" if codes and one.unseen is not None else ""
        fill = "" if one.fill is None else f"; {one.fill} where it is NaN"
        fill = "; NaN where it is missing" if one.missing and one.fill is None else fill
        lines.append(f"    x[{j}]  {one.name}{kinds}{fill}{'' if j in program.schema.used else '; not used'}")
    if labels is None:
        sizes = {"log": ", positive", "sorted": ", in ascending order"}
        lines += ["", f"y receives {q} output{'s' * (q > 1)}{sizes.get(program.link, '')}."]
    else:
        classes = ", ".join(f"{i} {label}" for i, label in enumerate(labels.classes))
        outputs = "one output, positive for the second class" if q == 1 else f"{q} outputs, one for each class"
        proba = f"; p their {len(labels.classes)} probabilities" * (labels.sharpness is not None)
        lines += ["", f"label receives the number of a class: {classes};", f"y receives {outputs}{proba}."]
    if any("_gradient(" in head for head in interface.functions):
        rows = f"of each of {q} outputs y by {d} inputs" if q > 1 else f"of y by {d} inputs"
        lines += ["", f"g receives the derivatives {rows}; they are NAN for categories."]
    lines += ["", *interface.about]
    lines += ["All functions return 0, or the number, counted from 1, of an input that is missing or no known"]
    lines += ["category (of a past value, where there are several rows). The terms:", ""]
    lines += [f"    {name}" for name in program.linear.names] or ["    none: the prediction is constant"]
    text = "/*\n"
    for line in lines:  # none of which may end the comment or begin one in it
        line = "".join(char if char.isprintable() else " " for char in line)
        line = re.sub(r"\?(?=\?)", "? ", line.replace("*/", "* /").replace("/*", "/ *"))  # nor a trigraph
        text += f" * {line}".rstrip() + "\n"
    return text + " */\n"
