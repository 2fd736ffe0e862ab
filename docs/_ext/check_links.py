"""Warn about links of the written pages whose file or anchor does not exist, which fails the build under `-W`."""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LINK = re.compile(r'<[^>]*?\s(?:href|src)="([^"]*)"')
ANCHOR = re.compile(r'<[^>]*?\s(?:id|name)="([^"]*)"')


def broken_links(folder: Path) -> list[tuple[str, str]]:
    """Return page and target of every broken link of the HTML pages in a folder; of other sites, only the syntax."""
    written = sorted(page for page in folder.rglob("*.html") if "_static" not in page.parts)
    pages = {page.resolve(): page.read_text(encoding="utf-8") for page in written}

    @cache
    def anchors(page: Path) -> set[str]:
        return {html.unescape(name) for name in ANCHOR.findall(pages[page])}

    def works(page: Path, link: str) -> bool:
        parts = urlsplit(link)
        if parts.scheme in ("data", "javascript", "mailto"):
            return True
        if parts.scheme or parts.netloc:
            return parts.scheme in ("http", "https", "") and "." in parts.netloc
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if target not in pages:
            return target.is_file()
        return not parts.fragment or unquote(parts.fragment) in anchors(target)

    links = [(page, html.unescape(link)) for page, text in pages.items() for link in sorted(set(LINK.findall(text)))]
    return [(str(page.relative_to(folder.resolve())), link) for page, link in links if not works(page, link)]


def check(app: Any, exception: Exception | None) -> None:
    """Check the pages after a successful build."""
    from sphinx.util import logging  # the tests of this module do without Sphinx

    logger = logging.getLogger(__name__)
    if exception is None and app.builder.format == "html":
        for page, link in broken_links(Path(app.outdir)):
            logger.warning("%s links to %s, which does not exist", page, link)


def setup(app: Any) -> dict[str, bool]:
    """Register the handler."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
