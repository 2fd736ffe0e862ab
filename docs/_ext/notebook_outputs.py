"""Put the outputs of the gallery's examples into the notebooks to download, so that these are executed ones.

sphinx-gallery runs an example once and writes its outputs to a page in reStructuredText, but not to its notebook.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

INDENTED = r"\n\n((?:(?: {4,}.*)?\n)+)"  # the content of a directive
OUTPUT = re.compile(
    rf"image-sg:: /gallery/(?P<image>\S+\.png)| \.\. code-block:: none{INDENTED}|^\.\. raw:: html{INDENTED}",
    re.MULTILINE,
)


def outputs(section: str, folder: Path) -> list[dict[str, Any]]:
    """Return the outputs in the section of a page after a code block, as those of a notebook's cell."""
    found: list[dict[str, Any]] = []
    for image, text, markup in OUTPUT.findall(section):
        if text:
            found.append({"output_type": "stream", "name": "stdout", "text": dedent(text).strip("\n") + "\n"})
            continue
        if image:
            data = {"image/png": base64.b64encode((folder / image).read_bytes()).decode("ascii")}
        else:
            data = {"text/html": dedent(markup).strip()}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    return found


def fill(notebook: Path) -> None:
    """Write the outputs of a page into its notebook."""
    page = notebook.with_suffix(".rst").read_text(encoding="utf-8")
    sections = re.split(r"^\.\. code-block:: Python$", page, flags=re.MULTILINE)[1:]
    document = json.loads(notebook.read_text(encoding="utf-8"))
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    for number, (cell, section) in enumerate(zip(cells, sections, strict=True), start=1):
        cell.update(execution_count=number, outputs=outputs(section, notebook.parent))
    notebook.write_text(json.dumps(document, indent=1), encoding="utf-8")


def fill_all(app: Any) -> None:
    """Fill the notebooks of the gallery, after its examples have run."""
    for notebook in sorted((Path(app.srcdir) / "gallery").glob("plot_*.ipynb")):
        fill(notebook)


def setup(app: Any) -> dict[str, bool]:
    """Register the handler, to be called after that of sphinx-gallery."""
    app.connect("builder-inited", fill_all, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
