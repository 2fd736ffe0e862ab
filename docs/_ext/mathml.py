"""Render formulas as MathML, which browsers support natively: no scripts and no fonts to download."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)

BEFORE = re.compile(r"(?<=[\w}]) (?=\\(?:log|operatorname))")  # a function that follows a factor
AFTER = re.compile(r"(\\log|\\operatorname\{\w+\}) (?=[\\\w])")  # a function followed by its argument
BAR = re.compile(r"<mo[^>]*>\|</mo>")  # of a norm: browsers space it like the relation "divides"


def inline(self: Any, node: nodes.math) -> None:
    """Render an inline formula."""
    self.body.append(converted(node, node.astext()))
    raise nodes.SkipNode


def display(self: Any, node: nodes.math_block) -> None:
    """Render a displayed formula; several lines are aligned at `&`."""
    text = node.astext()
    if "\\\\" in text and "\\begin" not in text:
        text = f"\\begin{{aligned}} {text} \\end{{aligned}}"
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(converted(node, text, as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def converted(node: nodes.Node, text: str, **options: bool) -> str:
    """Convert LaTeX to MathML; warn and return the LaTeX if that fails."""
    try:
        spaced = AFTER.sub(r"\1\\, ", BEFORE.sub(r" \\, ", text))
        mathml = latex2mathml.tex2mathml(spaced, **options)
        mathml = mathml.replace("<mtable ", '<mtable displaystyle="true" ')  # full-size fractions in aligned lines
        return BAR.sub('<mo stretchy="false" lspace="0" rspace="0">|</mo>', mathml)
    except MathError as error:
        logger.warning("%s in %s", error, text, location=node)
        return text


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
