"""The extensions of the documentation that check links and complete the notebooks of the gallery."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "_ext"))
check_links = importlib.import_module("check_links")
notebook_outputs = importlib.import_module("notebook_outputs")

WORKING = ("other.html", "other.html#there", "#here", "picture.png", "https://example.org/x#y", "mailto:a@example.org")
BROKEN = ("none.html", "other.html#nowhere", "#nowhere", "folder/picture.png", "https://nowhere", "htp://example.org")


@pytest.fixture
def site(tmp_path):
    (tmp_path / "other.html").write_text('<h1 id="there">Other</h1>')
    (tmp_path / "picture.png").write_bytes(b"")

    def write(link):
        (tmp_path / "page.html").write_text(f'<p id="here"><a class="x" href="{link}">link</a></p>')
        return tmp_path

    return write


@pytest.mark.parametrize("link", WORKING)
def test_working_links_are_accepted(site, link):
    assert check_links.broken_links(site(link)) == []


@pytest.mark.parametrize("link", BROKEN)
def test_broken_links_are_found(site, link):
    assert check_links.broken_links(site(link)) == [("page.html", link)]


PAGE = """
Title
=====

.. code-block:: Python

    print("first")

.. rst-class:: sphx-glr-script-out

 .. code-block:: none

    first
      indented

Text.

.. code-block:: Python

    plot()

.. image-sg:: /gallery/images/one.png
   :alt: one

.. raw:: html

    <div>
    <b>table</b>
    </div>
    <br />

.. code-block:: Python

    silent = 1
"""


def test_notebooks_have_the_outputs_of_the_page(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "one.png").write_bytes(b"png")
    (tmp_path / "plot_x.rst").write_text(PAGE)
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [""]}
    notebook = tmp_path / "plot_x.ipynb"
    notebook.write_text(json.dumps({"cells": [code, {"cell_type": "markdown", "source": ["Text."]}, code, code]}))
    notebook_outputs.fill(notebook)
    first, _, second, third = json.loads(notebook.read_text())["cells"]
    assert first["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "first\n  indented\n"}]
    image, table = (output["data"] for output in second["outputs"])
    assert image == {"image/png": "cG5n"}
    assert table["text/html"].startswith("<div>\n<b>table</b>")
    assert [first["execution_count"], third["execution_count"], third["outputs"]] == [1, 3, []]
