"""The page shows the metadata, works in a browser, loads nothing from the network and runs no foreign code."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import oracles
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import termwise
from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    ForwardClassifier,
    ForwardRegressor,
    OnlineRidge,
    RadialBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    diagnostics,
    report,
    write_report,
)
from termwise.basis import TableEncoder
from termwise.fitted import FoldModels

pytestmark = pytest.mark.xdist_group("report")  # one browser for all

HOSTILE = '</script><b id="pwned">'
IMAGE = '"><img src=x onerror="window.pwned=1">'


class Page(HTMLParser):
    """Elements, links and texts of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.addresses, self.text, self.scripts = [], [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)
        self.text += data


def page_data(html):
    """Data of the page's script."""
    (block,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', html, flags=re.DOTALL)
    return json.loads(block)


@pytest.fixture(scope="module")
def table():
    rng, n = np.random.default_rng(3), 220
    X = pd.DataFrame(
        {
            HOSTILE: rng.uniform(0, 30, n),
            "fuel": pd.Categorical(rng.choice(["<i>gas</i>", "oil", "wood"], n)),
            "load": rng.normal(500, 100, n),
        }
    )
    heat = np.sin(X[HOSTILE] / 6) + (X["fuel"] == "oil") * (X["load"] / 100 - 5)
    return X, pd.Series(heat + 0.1 * rng.normal(size=n), name=IMAGE)


@pytest.fixture(scope="module")
def regression(table):
    X, y = table
    basis = make_pipeline(TableEncoder(), AnovaBasis())
    model = ForwardRegressor(basis, max_terms=30, patience=None).fit(X[:150], y[:150])
    held_out, baselines = diagnostics.held_out_comparison(model, X[:150], y[:150], X[150:], y[150:])
    notes = [HOSTILE, IMAGE]
    return model, diagnostics.facts(
        model,
        X[:150],
        y[:150],
        held_out=held_out,
        baselines=baselines,
        notes=notes,
        reproduce=f"termwise fit {HOSTILE}",
    )


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 5))
    y = np.array(["<u>", "b", "c"])[np.digitize(X[:, 0] + 0.4 * X[:, 1] ** 2 + 0.3 * rng.normal(size=150), [-0.3, 0.7])]
    return X, y


# -- content ----------------------------------------------------------------------------------------------------------


def test_the_page_is_complete_and_self_contained(regression):
    html = report.render(regression[0], facts=regression[1])
    page = Page(html)
    assert page_data(html)["facts"] == regression[1]
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z]", re.sub(r"// .*", "", html))
    assert "default-src 'none'" in html
    for section in ("quality", "path", "terms", "effects", "fit", "notes"):
        assert f'<section id="{section}">' in html
        assert f"#{section}" in page.addresses
    for term in regression[1]["terms"]:
        assert term["name"] in page.text


def test_names_are_escaped(regression):
    html = report.render(regression[0], facts=regression[1], title=HOSTILE)
    page = Page(html)
    assert "b" not in page.tags
    assert "img" not in page.tags
    assert page.tags.count("script") == 2
    assert HOSTILE in page.text
    assert html.lower().count("</script") == 2


@pytest.mark.parametrize(
    "model",
    [BasisRidge(RadialBasis()), OnlineRidge(keep_samples=False), ForwardRegressor(),
     TermwiseRegressor(2, dictionary="linear"),
     CriterionSearch(BasisRidge(RadialBasis()), {"basis__width": [0.5, 1.0]})],
)  # fmt: skip
def test_models_of_all_kinds(model, rng):
    X = rng.normal(size=(60, 3))
    for y in (X[:, 0] + 0.1 * rng.normal(size=60), np.zeros(60), np.column_stack([X[:, 0], X[:, 1]])):
        html = report.render(model.fit(X, y), X=X, y=y)
        assert "Terms and weights" in html
        assert html.count("<section") >= 2
        report.render(model)


def test_a_model_without_terms_is_called_what_it_is(rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = ForwardRegressor().fit(X, y).at(0)
    held_out = {"metric": "R2", "value": -0.02, "n": 9, "rmse": 12345.6}
    page = Page(report.render(model, facts=diagnostics.facts(model, X, y, held_out=held_out)))
    text = " ".join(page.text.split())
    assert "No terms: the model is the mean." in text
    assert "R² \u22120.020: no better than the mean. These 9 samples were not used in the fit of the model." in text
    assert "The root mean square error is 12,300." in text
    assert "Standard errors" not in page.text
    assert "several inputs jointly" not in page.text
    assert "Observed and predicted" not in page.text


def test_what_error_estimates_account_for(rng):
    X = rng.normal(size=(60, 3))
    model = TermwiseRegressor(dictionary="linear", target="data").fit(X, X[:, 0] + rng.normal(size=60))
    model.cv_error_, model.cv_error_std_ = 0.25, 0.031
    facts = diagnostics.facts(model, X, X[:, 0])
    page = Page(report.render(model, facts=facts))
    assert "the fewest terms whose error is close to the minimum" in page.text
    assert "cross-validated R²0.750 ± 0.0315-fold cross-validation, selection repeated" in page.text
    assert "given the terms" in page.text
    facts["model"]["size"] = 3
    assert "The size of this model was given" in report.render(model, facts=facts)
    forward = ForwardRegressor().fit(X, X[:, 0])
    assert "some fit by chance" in report.render(forward, X=X, y=X[:, 0])


@pytest.fixture(scope="module")
def with_folds():
    """A regressor and a classifier that have kept the models of their folds, with their samples."""
    rng, n = np.random.default_rng(6), 200
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    X["kind"] = pd.Categorical(rng.choice(["u", "v"], n))
    y = X["a"] * X["b"] + (X["kind"] == "u") + 0.3 * rng.normal(size=n)
    labels = np.where(y + 0.3 * rng.normal(size=n) > 0.5, "yes", "no")
    basis, fold = make_pipeline(TableEncoder(), AnovaBasis()), np.arange(n) % 5
    found = []
    for estimator, target in ((ForwardRegressor(basis), y.to_numpy()), (TermwiseClassifier(4), labels)):
        classifies, residuals, models = target is labels, np.empty((n, 1)), []
        for k in range(5):
            one = clone(estimator).fit(X[fold != k], target[fold != k])
            score = (one.decision_function if classifies else one.predict)(X[fold == k])
            coded = np.where(target[fold == k] == "yes", 1.0, -1.0) if classifies else target[fold == k]
            residuals[fold == k, 0] = coded - score
            models.append(replace(one.fitted_terms_, statistics_or_solve=None))
        model = estimator.fit(X, target)
        record = FoldModels(tuple(models), fold, residuals, np.ones(n))
        model.fitted_terms_ = replace(model.fitted_terms_, fold_models=record)
        found.append((model, X, target))
    return found


@pytest.mark.slow
def test_reliability_is_that_of_out_of_fold_probabilities(with_folds):
    _, (model, X, y) = with_folds
    facts, record = diagnostics.facts(model, X, y), model.fitted_terms_.fold_models
    ((curve),) = facts["reliability"]
    scores, probabilities = (np.where(y == "yes", 1.0, -1.0) - record.residuals[:, 0])[:, None], np.empty(len(y))
    for k in range(5):  # calibrated on the other folds, where labels are smoothed: Platt (2000)
        S, labels = scores[record.fold != k], y[record.fold != k]
        other = np.where(labels == "yes", "no", "yes")
        size = np.where(labels == "yes", np.sum(labels == "yes"), np.sum(labels == "no"))
        share = oracles.WRONG_LABELS / (size + 2 * oracles.WRONG_LABELS)
        logistic = LogisticRegression(C=1e6)
        logistic.fit(np.vstack([S, S]), np.append(labels, other), np.append(1 - share, share))
        probabilities[record.fold == k] = logistic.predict_proba(scores[record.fold == k])[:, 1]
    order = np.argsort(probabilities, kind="stable")
    groups = np.array_split(order, 10)
    np.testing.assert_allclose(curve["predicted"], [probabilities[rows].mean() for rows in groups], atol=1e-3)
    np.testing.assert_allclose(curve["observed"], [(y[rows] == "yes").mean() for rows in groups], atol=1e-3)
    assert curve["class"] == "yes"
    text = " ".join(Page(report.render(model, facts=facts)).text.split())
    assert "Reliability of the probabilities" in text
    assert "of models that were selected and fitted without the sample" in text
    bare = TermwiseClassifier(2, dictionary="linear").fit(X, y)
    bare.fitted_terms_ = replace(bare.fitted_terms_, fold_models=None)
    assert "reliability" not in diagnostics.facts(bare, X, y)


def test_reliability_of_several_classes(classes):
    X, y = classes
    model = TermwiseClassifier(3, dictionary="linear").fit(X, y)
    noise = np.random.default_rng(0).normal(size=(len(y), 3))
    record = FoldModels((model.fitted_terms_,) * 2, np.arange(len(y)) % 2, noise, np.ones(len(y)))
    model.fitted_terms_ = replace(model.fitted_terms_, fold_models=record)
    facts = diagnostics.facts(model, X, y)
    assert [curve["class"] for curve in facts["reliability"]] == ["<u>", "b", "c"]
    assert "Observed frequency of each class against" in report.render(model, facts=facts)


def test_inputs_are_ranked_by_their_total_effects(with_folds, monkeypatch):
    (model, X, y), _ = with_folds
    monkeypatch.setattr(type(model), "selection_frequency_", np.array([1.0, 0.8, 0.2, 1.0]), raising=False)
    facts = diagnostics.facts(model, X, y)
    assert facts["selection_frequency"] == {"a": 1.0, "kind": 1.0, "b": 0.8, "c": 0.2}
    names = [row["input"] for row in facts["importance"]]
    assert set(names[:2]) == {"a", "b"}
    html = report.render(model, facts=facts)
    table = html.split('id="importance"')[1].split("</table>")[0]
    assert re.findall(r'<th scope="row">(\w+)</th>', table) == names
    assert "80.0\u00a0%" in table
    assert "std. error given the terms" in html


def test_files_of_older_versions(regression):
    """Without densities, bands and total effects."""
    old = json.loads(json.dumps(regression[1]))
    del old["importance"]
    for effect in old["effects"]:
        del effect["density" if len(effect["inputs"]) == 1 else "support"]
        effect.pop("support", None)
    text = " ".join(Page(report.render(None, facts=old)).text.split())
    assert "How much the prediction depends" not in text
    assert "ticks are deciles of the samples." in text


def test_numbers_have_sensible_digits(rng):
    X = rng.normal(size=(60, 3))
    facts = diagnostics.facts(ForwardRegressor().fit(X, X[:, 0]))
    values = [3, 12345, 12345.6, -0.00123456, 1.5e-9, 2.34567e8, 1.0]
    facts["scores"] = dict(zip("abcdefg", values, strict=True))
    text = Page(report.render(None, facts=facts)).text
    assert "Error estimates: a 3, b 12,345, c 12,350, d \u22120.001235, e 1.5e\u221209, f 2.346e+08, g 1." in text


def test_trials_are_in_the_order_of_their_errors(rng):
    X = rng.normal(size=(60, 3))
    facts = diagnostics.facts(ForwardRegressor().fit(X, X[:, 0]))
    errors = {"t-12": [12.0, 14.0], "t-2": [None, 2.0], "t-none": [None], "t-0.5": [0.5], "t-99.5": [100.0, 99.5]}
    facts["trials"] = [{"name": name, "error": error} for name, error in errors.items()]
    listed = re.findall(r'class="name">(t-[^<]+)<', report.render(None, facts=facts))
    assert listed == ["t-0.5", "t-2", "t-12", "t-99.5", "t-none"]


def test_a_title_of_its_own(classes):
    X, y = classes
    model = ForwardClassifier(criterion=None, max_terms=3).fit(X, y)
    html = report.render(model, X=X, y=pd.Series(y, name="kind"))
    assert "<title>kind in 3 terms</title>" in html
    one = report.render(ForwardClassifier(criterion=None, max_terms=1).fit(X, y))
    assert "<title>A model of 1 term</title>" in one


@pytest.mark.slow
def test_a_predictor(classes, table, tmp_path):
    X, y = classes
    model = TermwiseClassifier(3, dictionary="linear").fit(X, y)
    bare = report.render(model.predictor_)
    assert "saved without metadata of its fit" in bare
    assert "candidates" not in Page(bare).text.split("{", 1)[0]
    carrying = model.predictor_.with_facts(diagnostics.facts(model, X, y))
    carrying.save(tmp_path / "model.json")
    loaded = termwise.load_predictor(tmp_path / "model.json")
    assert report.render(loaded) == report.render(carrying)
    assert "Performance on these data" not in report.render(loaded)
    html = report.render(loaded, X=X[:20], y=y[:20])
    assert "accuracy" in Page(html).text
    assert page_data(html)["data"]["n"] == 20
    X, y = table
    regressor = BasisRidge(TableEncoder()).fit(X, y)
    text = Page(report.render(regressor.predictor_, X=X, y=y)).text
    assert "samples given to this report" in " ".join(text.split())


def test_writing(tmp_path, classes):
    X, y = classes
    model = ForwardClassifier().fit(X, y)
    path = tmp_path / "page.html"
    write_report(model, path, X, y, title="Kinds")
    before = path.read_text(encoding="utf-8")
    assert "<title>Kinds</title>" in before
    with pytest.raises(ValueError, match="samples of the fit"):
        write_report(model, path, X[:10], y[:10])
    assert path.read_text(encoding="utf-8") == before
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_messages(regression, monkeypatch):
    with pytest.raises(ValueError, match=r"facts must be what termwise\.diagnostics\.facts collects, got a dict "
                       r"without scores, .*: leave it out to have them collected\."):  # fmt: skip
        report.render(regression[0], facts={"model": {}})
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"A report needs jinja2, .* pip install 'termwise\[report\]'"):
        report.render(regression[0], facts=regression[1])


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(dark):
    """Text and lines stand out enough (WCAG 2, 1.4.3 and 1.4.11), in both colour schemes."""
    css = files("termwise.explain").joinpath("page", "page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[0]))
    if dark:
        colours |= dict(re.findall(r"--(\w+): (#\w{6})", blocks[1]))
    for name in ("ink", "quiet", "blue", "vermilion", "green", "purple", "orange", "sky", "grey"):
        for ground in ("paper", "panel"):
            least = 4.5 if name in ("ink", "quiet", "blue") else 3.0
            assert contrast(colours[name], colours[ground]) >= least, (name, ground)


def contrast(one, other):
    def luminance(colour):
        parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


# -- in a browser ------------------------------------------------------------------------------------------------------

CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
DRIVER = shutil.which("chromedriver")
in_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Chromium and its driver: apt-get install chromium chromium-driver"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-sync",
                     "disable-background-networking", "disable-component-update", "hide-scrollbars",
                     f"user-data-dir={tmp_path_factory.mktemp('profile')}"):  # fmt: skip
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(executable_path=DRIVER), options=options)
    yield driver
    driver.quit()


@pytest.fixture
def show(browser, tmp_path):
    """Open a page at a width; afterwards the console must be empty, and no request may have gone to the network."""

    def open_page(html, width=1000):
        (tmp_path / "page.html").write_text(html, encoding="utf-8")
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get((tmp_path / "page.html").as_uri())
        return browser

    browser.get_log("performance")
    yield open_page
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    requests = [
        one["request"]["url"] for one in sent if one["documentURL"].startswith("file:")
    ]  # not the browser's own
    assert requests
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


def css(browser, selector):
    return browser.find_elements("css selector", selector)


def hover(browser, element):
    from selenium.webdriver import ActionChains

    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    ActionChains(browser).move_to_element(element).perform()
    return css(browser, "#tooltip")[0].text


@pytest.mark.slow
@in_browser
def test_hovering_switching_and_picking(show, regression):
    model, facts = regression
    browser = show(report.render(model, facts=facts))
    chart = css(browser, "#path-charts svg")[0]
    text = hover(browser, chart)
    assert "terms" in text
    assert "leave-one-out" in text
    lines = len(css(browser, "#path-charts .chart:first-child .line"))
    css(browser, "#criteria input[value=bic]")[0].click()
    assert len(css(browser, "#path-charts .chart:first-child .line")) == lines + 1
    css(browser, "#zoom")[0].click()
    assert len(css(browser, "#path-charts .chart:first-child .line")) == lines + 1

    assert len(css(browser, "#term-rows tr:not(.group)")) == facts["model"]["n_terms"]
    groups = [row.text for row in css(browser, "#term-rows tr.group span:first-child")]
    assert set(groups) == {" \u00d7 ".join(term["inputs"]) for term in facts["terms"]}
    css(browser, "#order option[value=selection]")[0].click()
    assert css(browser, "#term-rows tr.group") == []
    css(browser, "#size")[0].send_keys("\ue012")  # arrow to the left
    size = facts["model"]["n_terms"] - 1
    assert css(browser, "#size-now")[0].text == f"{size} terms"
    rows = css(browser, "#term-rows tr")
    weights = next(one for one in facts["sizes"] if one["size"] == size)["weights"][0]
    shown = [float(row.find_elements("tag name", "td")[1].text.replace("\u2212", "-")) for row in rows]
    np.testing.assert_allclose(shown, weights, rtol=1e-3)
    assert [row.find_element("tag name", "th").text for row in rows] == facts["path_terms"][:size]
    button = css(browser, f"#choices button[data-size='{facts['choices']['loo']}']")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    assert css(browser, "#size-now")[0].text == f"{facts['choices']['loo']} terms"
    assert button.get_attribute("aria-pressed") == "true"
    chart = css(browser, "#path-charts svg")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    chart.click()  # in the middle
    assert int(css(browser, "#size-now")[0].text.split()[0]) == pytest.approx(15, abs=2)


@pytest.mark.slow
@in_browser
def test_tooltips_of_effects_and_residuals(show, regression):
    model, facts = regression
    browser = show(report.render(model, facts=facts))
    figures = css(browser, "#effect-plots svg")
    assert len(figures) == len(facts["effects"])
    for figure, effect in zip(figures, facts["effects"], strict=True):
        text = hover(browser, figure)
        assert "effect" in text
        assert all(name in text for name in effect["inputs"])
    assert len(css(browser, "#fit-plots .point")) == 2 * 150
    point = css(browser, "#fit-plots .point")[20]
    assert hover(browser, point).startswith("sample ")


@pytest.mark.slow
@in_browser
def test_bands_densities_and_reliability(show, with_folds, regression):
    (model, X, y), (classifier, _, labels) = with_folds
    facts = diagnostics.facts(model, X, y)
    browser = show(report.render(model, facts=facts))
    single = [effect for effect in facts["effects"] if len(effect["inputs"]) == 1]
    curves = [effect for effect in single if not effect["categories"][0]]
    assert len(css(browser, "#effect-plots .band")) == len(curves)
    assert len(css(browser, "#effect-plots .density")) == 60 * len(curves)
    assert len(css(browser, "#effect-plots line.error")) == 2 * (len(single) - len(curves))
    for figure, effect in zip(css(browser, "#effect-plots svg"), facts["effects"], strict=True):
        assert ("\u00b1" in hover(browser, figure)) == (len(effect["inputs"]) == 1)
    browser = show(report.render(classifier, X=X, y=labels))
    assert len(css(browser, "#reliability-chart .dot")) == 10
    assert "predicted" in hover(browser, css(browser, "#reliability-chart svg")[0])
    old = json.loads(json.dumps(regression[1]))
    for effect in old["effects"]:
        effect.pop("density", None)
        effect.pop("support", None)
    assert len(css(show(report.render(None, facts=old)), "#effect-plots svg")) == len(old["effects"])


@in_browser
def test_hostile_names_in_the_browser(show, regression):
    model, facts = regression
    browser = show(report.render(model, facts=facts, title=HOSTILE))
    assert browser.title == HOSTILE
    assert css(browser, "h1")[0].text == HOSTILE
    assert css(browser, "#pwned") == css(browser, "img") == css(browser, "i") == []
    assert browser.execute_script("return window.pwned") is None
    assert HOSTILE in css(browser, "#term-rows")[0].text
    assert css(browser, "pre")[0].text == f"termwise fit {HOSTILE}"


@pytest.mark.slow
@in_browser
def test_nothing_to_scroll_sideways_on_a_phone(show, regression, classes):
    X, y = classes
    pages = [report.render(regression[0], facts=regression[1], title="a_very_long_name_without_any_space_" * 3)]
    pages.append(report.render(ForwardClassifier().fit(X, y), X=X, y=y))
    for html in pages:
        browser = show(html, width=360)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 360
        for svg in css(browser, ".chart svg"):
            assert svg.size["width"] <= 360


@pytest.mark.slow
@in_browser
def test_classes_penalties_and_searches(show, classes):
    X, y = classes
    model = ForwardClassifier(AnovaBasis()).fit(X, y)
    browser = show(report.render(model, X=X, y=y))
    assert len(css(browser, "table.confusion tbody tr")) == 3
    before = css(browser, "#term-rows td:nth-child(3)")[0].text
    css(browser, "#output option")[1].click()
    assert css(browser, "#term-rows td:nth-child(3)")[0].text != before
    css(browser, "#order option")[1].click()
    orders = [int(cell.text) for cell in css(browser, "#term-rows .order")]
    assert sorted(orders) == list(range(1, len(orders) + 1))
    z = X[:, 0] + 0.1 * X[:, 1]
    search = CriterionSearch(BasisRidge(RadialBasis()), {"basis__width": [1.0, 2.0]}).fit(X, z)
    browser = show(report.render(search, X=X, y=z))
    assert "alpha = " in hover(browser, css(browser, "#penalty-chart svg")[0])
    assert len(css(browser, "#term-rows tr")) == 25
    css(browser, "#more")[0].click()
    assert len(css(browser, "#term-rows tr")) == 150
    assert len(css(browser, "#tried tbody tr")) == 2


@in_browser
def test_outputs_of_different_sizes_are_shown_one_at_a_time(show, rng):
    X = rng.normal(size=(80, 2))
    Y = pd.DataFrame({"small": 1e-3 * X[:, 0], "large": 1e3 * X[:, 1]})
    model = ForwardRegressor(criterion=None, max_terms=2).fit(X, Y)
    browser = show(report.render(model, X=X, y=Y))

    def reaches():
        return [line.rect["height"] for line in css(browser, "#effect-plots .line.faint")]

    assert len(reaches()) == 2
    assert max(reaches()) > 80
    css(browser, "#effect-output option")[1].click()
    assert len(reaches()) == 2
    assert max(reaches()) > 80


def test_a_predictor_of_several_quantiles_is_reported(tmp_path, rng):
    X = rng.normal(size=(60, 2))
    model = ForwardRegressor(loss="quantile", quantile=(0.1, 0.9), max_terms=2).fit(X, X[:, 0])
    write_report(model.predictor_, tmp_path / "report.html", X, X[:, 0] + rng.normal(size=60))
    assert (tmp_path / "report.html").stat().st_size > 0
