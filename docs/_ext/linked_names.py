"""Link public names written as code in a page to the reference."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform

import termwise

CALL = re.compile(r"(\w+)(\(.*\))?")


class LinkNames(SphinxTransform):
    """Turn code that is a public name, or a call of it, into a cross-reference."""

    default_priority = 300

    def apply(self, **_: Any) -> None:
        """Visit inline code, except in headings and existing links."""
        for node in list(self.document.findall(nodes.literal)):
            found = CALL.fullmatch(node.astext())
            inside_link = isinstance(node.parent, nodes.reference | nodes.title | pending_xref)
            if found is None or found[1] not in termwise.__all__ or inside_link:
                continue
            link = pending_xref(
                "",
                node.deepcopy(),
                refdomain="py",
                reftype="obj",
                reftarget=f"termwise.{found[1]}",
                refexplicit=True,
                refwarn=False,
                refdoc=self.env.docname,
            )
            node.replace_self(link)


def setup(app: Any) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
