"""Leave methods inherited from scikit-learn out of the reference; scikit-learn documents them."""

from __future__ import annotations

from typing import Any


def skip(app: Any, what: str, name: str, member: Any, skipped: bool, options: Any) -> bool | None:
    """Skip members that another package defines."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    home = getattr(function, "__module__", None) or ""
    if what == "class" and callable(function) and not home.startswith("termwise"):
        return True
    return None


def setup(app: Any) -> dict[str, bool]:
    """Register the handler."""
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
