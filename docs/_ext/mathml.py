"""Formulas as MathML, which browsers draw by themselves: no script, no fonts to fetch, nothing to wait for."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)

BEFORE = re.compile(r"(?<=[\w}]) (?=\\(?:log|operatorname))")  # a function that follows a factor
AFTER = re.compile(r"(\\log|\\operatorname\{\w+\}) (?=[\\\w])")  # a function followed by its argument
BAR = re.compile(r"<mo[^>]*>\|</mo>")  # of a norm, which browsers take for "divides" and set apart


def inline(self: Any, node: nodes.math) -> None:
    """Write a formula in a line."""
    self.body.append(converted(node, node.astext()))
    raise nodes.SkipNode


def display(self: Any, node: nodes.math_block) -> None:
    """Write a formula of its own, with lines aligned at `&` where there are several."""
    text = node.astext()
    if "\\\\" in text and "\\begin" not in text:
        text = f"\\begin{{aligned}} {text} \\end{{aligned}}"
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(converted(node, text, as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def converted(node: nodes.Node, text: str, **options: bool) -> str:
    """Turn LaTeX into MathML, or say what it is that cannot be."""
    try:
        spaced = AFTER.sub(r"\1\\, ", BEFORE.sub(r" \\, ", text))
        mathml = latex2mathml.tex2mathml(spaced, **options)
        mathml = mathml.replace("<mtable ", '<mtable displaystyle="true" ')  # fractions of full size in aligned lines
        return BAR.sub('<mo stretchy="false" lspace="0" rspace="0">|</mo>', mathml)
    except MathError as error:
        logger.warning("%s in %s", error, text, location=node)
        return text


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
