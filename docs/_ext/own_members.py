"""In the reference, only what is ours: methods that come from scikit-learn are described there."""

from __future__ import annotations

from typing import Any


def skip(app: Any, what: str, name: str, member: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out members of classes that another package has defined."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    home = getattr(function, "__module__", None) or ""
    if what == "class" and callable(function) and not home.startswith("termwise"):
        return True
    return None


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
