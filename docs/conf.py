"""Sphinx configuration: `make docs`. The build needs no network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import termwise

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

# Two examples run at the same time, with one thread each.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

project = "termwise"
author = "The termwise developers"
copyright = f"2026, {author}"
version = release = termwise.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "check_links",
    "linked_names",
    "mathml",
    "notebook_outputs",
    "own_members",
    "results",
]
exclude_patterns = ["_build", "gallery/**.ipynb"]
templates_path = ["_templates"]

# Names in single backquotes in docstrings are links if they resolve, and code otherwise.
default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions, which Sphinx cannot cache

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(growth|local_ridge)\.py$",  # figures of the pages, not gallery examples
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (640, 320),
    "parallel": 2,
    "abort_on_example_error": False,
    "only_warn_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 0,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "reference_url": {"termwise": None},
    "doc_module": ("termwise",),
    "backreferences_dir": "gallery/backreferences",
    "inspect_global_variables": False,
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "termwise"
html_static_path = ["_static"]
html_favicon = "_static/icon.svg"
html_css_files = ["style.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark as the browser says
html_theme_options = {
    "logo": {"text": "termwise", "image_light": "_static/icon.svg", "image_dark": "_static/icon.svg"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {page: [] for page in ("index", "gallery/plot_00_tutorial")}  # pages without a section navigation
