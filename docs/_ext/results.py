"""A directive and a role that write committed benchmark results into the pages, so that no number is typed by hand.

Both select records of a file in `benchmarks/results`; `result_tables` has their syntax.
"""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from result_tables import source_file, table, value
from sphinx.util.docutils import SphinxDirective, SphinxRole

OPTIONS = ("where", "rows", "columns", "cell", "best", "relative", "mean")


class Results(SphinxDirective):
    """A table of results."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = dict.fromkeys(OPTIONS, directives.unchanged_required)

    def run(self) -> list[nodes.Node]:
        """Parse the Markdown table and its source, which becomes a small paragraph."""
        name = self.arguments[0]
        self.env.note_dependency(source_file(name))
        parsed = self.parse_text_to_nodes(table(name, self.options, list(self.content)))
        parsed[-1]["classes"].append("source")
        return parsed


class Result(SphinxRole):
    """One number of the results."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the formatted number as text."""
        self.env.note_dependency(source_file(self.text.split(";")[0].strip()))
        return [nodes.Text(value(self.text))], []


def setup(app: Any) -> dict[str, bool]:
    """Register the directive and the role."""
    app.add_directive("results", Results)
    app.add_role("result", Result())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
