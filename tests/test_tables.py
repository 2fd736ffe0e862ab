"""Reading of tables and definition of tasks: awkward files give a result, or an error with a remedy."""

from __future__ import annotations

import gzip
import io
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termwise import memory_budget
from termwise.cli.saved_model import select_inputs
from termwise.cli.tables import read_table
from termwise.cli.task import fill_values, make_task
from termwise.deploy.inputs import Input


@pytest.fixture
def written(tmp_path):
    """Write a file and read it as a table."""

    def write(content, name="table.csv", **options):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_table(path, **options)

    return write


def values(table):
    return {name: column.values.tolist() for name, column in table.columns.items()}


NUMBERS = {"a": [1.5, 2.5], "b": [2.0, 1234.0]}

# (name, content, columns, a note among others)
GOOD = [
    ("plain", "a,b\n1.5,2\n2.5,1234\n", NUMBERS, None),
    ("byte order mark", b"\xef\xbb\xbfa,b\n1.5,2\n2.5,1234\n", NUMBERS, None),
    ("semicolons and decimal commas", "a;b\n1,5;2\n2,5;1.234\n", NUMBERS, "numbers are written with decimal commas"),
    ("decimal points behind semicolons", "a;b\n1.5;2\n2.5;1234\n", NUMBERS, "fields are separated by semicolons"),
    ("thousands in quotation marks", 'a,b\n1.5,"2"\n2.5,"1,234"\n', NUMBERS, None),
    ("spaces between thousands", "a;b\n1,5;2\n2,5;1\u00a0234\n", NUMBERS, None),
    ("tabs", "a\tb\n1.5\t2\n2.5\t1234\n", NUMBERS, "fields are separated by tabs"),
    ("bars", "a|b\n1.5|2\n2.5|1234\n", NUMBERS, "fields are separated by bars"),
    ("spaces", "a b\n1.5   2\n2.5 1234\n", NUMBERS, "fields are separated by spaces"),
    ("no names", "1.5,2\n2.5,1234\n", {"x0": [1.5, 2.5], "x1": [2.0, 1234.0]},
     "no header in the first line: the columns are named x0 to x1"),
    ("no names, a word", "1,u\n2,v\n", {"x0": [1.0, 2.0], "x1": ["u", "v"]}, "no header"),
    ("one column", "a\n1\n2\n", {"a": [1.0, 2.0]}, None),
    ("one row", "a,b\n1,2\n", {"a": [1.0], "b": [2.0]}, None),
    ("quoted newlines", 'a,b\n"u\nv",1\n"w, x",2\n', {"a": ["u\nv", "w, x"], "b": [1.0, 2.0]}, None),
    ("names twice", "a,a,b\n1,2,3\n4,5,6\n", {"a": [1, 4], "a (2)": [2, 5], "b": [3, 6]},
     "duplicate column a is renamed a (2)"),
    ("names that are not there", ",b\n0,2\n1,3\n", {"column 1": [0, 1], "b": [2, 3]}, None),
    ("Windows", "größe,b\n1,ä\n2,ö\n".encode("cp1252"), {"größe": [1, 2], "b": ["ä", "ö"]}, "encoded in Windows-1252"),
    ("UTF-16", "a,b\n1,ä\n2,ö\n".encode("utf-16"), {"a": [1, 2], "b": ["ä", "ö"]}, "encoded in utf-16"),
    ("gzip", gzip.compress(b"a,b\n1.5,2\n2.5,1234\n"), NUMBERS, None),
    ("old line ends", "a,b\r1.5,2\r2.5,1234\r", NUMBERS, None),
    ("blank lines", "\na,b\n\n1.5,2\n\n2.5,1234\n\n", NUMBERS, None),
    ("a delimiter at the end of rows", "a,b\n1.5,2,\n2.5,1234,\n", NUMBERS, None),
    ("large numbers", "a,b\n1e300,12345678901234567890123\n2,3\n",
     {"a": [1e300, 2], "b": [1.2345678901234568e22, 3]}, None),
    ("infinite numbers", "a,b\ninf,1\n2,-Infinity\n", {"a": [np.inf, 2], "b": [1, -np.inf]}, None),
    ("true and false", "a,b\ntrue,1\nFALSE,2\n", {"a": ["true", "FALSE"], "b": [1, 2]}, None),
    ("three digits after a decimal comma", "a;b\n1,500;0,125\n2,500;1,000\n", {"a": [1.5, 2.5], "b": [0.125, 1]},
     "numbers are written with decimal commas"),
    ("only three digits after each comma", "a;b\n1,500;2,125\n2,500;1,000\n", {"a": [1.5, 2.5], "b": [2.125, 1]},
     "numbers are written with decimal commas"),
    ("only three digits after each point", "a;b\n1.500;2.125\n2.500;1.000\n", {"a": [1.5, 2.5], "b": [2.125, 1]},
     None),
    ("three digits behind tabs", "a\tb\n0,500\t2,125\n-0,125\t1,000\n", {"a": [0.5, -0.125], "b": [2.125, 1]}, None),
    ("thousands twice", 'a;b\n"1,234,567";2\n"2,345";3\n', {"a": [1234567, 2345], "b": [2, 3]}, None),
    ("per cent and currencies", "a;b;c\n5 %;$1,234.50;1,5 \u20ac\n12.5%;-$2;\u20ac3\n",
     {"a": [5, 12.5], "b": [1234.5, -2], "c": [1.5, 3]}, None),
    ("different currencies", "a,b\n$5,1\n\u20ac6,2\n", {"a": ["$5", "\u20ac6"], "b": [1, 2]}, None),
    ("a sign inside", "a,b\n5$3,1\n6$2,2\n", {"a": ["5$3", "6$2"], "b": [1, 2]}, None),
    ("a proper minus", "a,b\n\u22121,2\n3,4\n", {"a": [-1, 3], "b": [2, 4]}, None),
]  # fmt: skip


@pytest.mark.parametrize(("content", "columns", "note"), [g[1:] for g in GOOD], ids=[g[0] for g in GOOD])
def test_read_table(written, content, columns, note):
    table = written(content)
    assert values(table) == columns
    assert table.n_rows == len(next(iter(columns.values())))
    assert note is None or any(note in each for each in table.notes)


@pytest.mark.slow
def test_lines_longer_than_the_sample(written):
    names = [f"a rather long name of column {j}" for j in range(5000)]
    rows = "".join(",".join(str(i + j) for j in range(5000)) + "\n" for i in range(3))
    table = written(",".join(names) + "\n" + rows)
    assert list(table.columns) == names
    assert table.columns[names[-1]].values.tolist() == [4999, 5000, 5001]


def test_numeric_names_are_found_by_expected_names(written):
    content = "land,2019,2020\nu,1,2\nv,3,4\n"
    assert list(written(content).columns) == ["x0", "x1", "x2"]
    assert values(written(content, expected=["2020"])) == {"land": ["u", "v"], "2019": [1, 3], "2020": [2, 4]}


def test_hints(written):
    table = written("zip code,price,n\n00501,$1,1\n10001,$2,2\n")
    said = "has numbers that begin with zeros, as identifiers do: --category 'zip code' reads them as categories"
    assert [column.hint for column in table.columns.values()] == [said, "is written with $, which is left out", ""]
    words = written("zip code,n\n00501,1\n10001,2\n", as_text=["zip code"]).columns["zip code"]
    assert words.values.tolist() == ["00501", "10001"]
    assert not words.hint


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a,b\n1.5,2\n2.5,1234\n")))
    assert values(read_table("-")) == NUMBERS


def test_spellings_of_missing_values(written):
    table = written("a,b,c\n?,NA,x\n-,n/a,\n3,4,NULL\n.,#DIV/0!,missing\n")
    assert np.array_equal(table.columns["a"].values, [np.nan, np.nan, 3, np.nan], equal_nan=True)
    assert np.array_equal(table.columns["b"].values, [np.nan, np.nan, 4, np.nan], equal_nan=True)
    assert table.columns["c"].values.tolist() == ["x", None, None, None]
    assert table.columns["c"].missing.tolist() == [False, True, True, True]


def test_absence_is_a_value_unless_said_otherwise(written):
    """An attachment called "none" is a level; a number given as "-" is missing."""
    content = "format,pool,price,when\nhtml,none,-,2021-01-02\nnone,good,3,-\n-,None,4,2021-03-04\n.,NA,5,2021-04-04\n"
    table = written(content)
    assert table.columns["format"].values.tolist() == ["html", "none", "-", "."]
    assert table.columns["pool"].values.tolist() == ["none", "good", "None", None]
    assert np.array_equal(table.columns["price"].values, [np.nan, 3, 4, 5], equal_nan=True)
    assert table.columns["when"].missing.tolist() == [False, True, False, False]
    assert table.columns["when"].kind == "date"
    table = written(content, missing=["None", "-", "5"])
    assert table.columns["format"].values.tolist() == ["html", None, None, "."]
    assert table.columns["pool"].values.tolist() == [None, "good", None, None]
    assert np.array_equal(table.columns["price"].values, [np.nan, 3, 4, np.nan], equal_nan=True)
    assert np.array_equal(written("a\n-999\n5\n", missing=["-999"]).columns["a"].values, [np.nan, 5], equal_nan=True)


@pytest.mark.parametrize(
    ("content", "missing", "expected"),
    [("a;b\n-99,9;1,5\n2,5;2,5\n", ["-99,9"], [np.nan, 2.5]), ("a;b\n-99,9;1,5\n2,5;2,5\n", ["-99.9"], [np.nan, 2.5]),
     ("a,b\n1234,1\n5,2\n", ["1,234"], [np.nan, 5]), ("a,b\n1000,1\n5,2\n", ["1 000"], [np.nan, 5]),
     ("a,b\n-999.0,1\nn.d.,2\n5,3\n", ["-999", "n.d."], [np.nan, np.nan, 5])],
)  # fmt: skip
def test_numbers_for_a_missing_value(written, content, missing, expected):
    column = written(content, missing=missing).columns["a"]
    np.testing.assert_array_equal(column.values, expected)
    assert column.found == set(missing)


def test_a_number_may_stand_for_all_values_of_a_column(written):
    assert written("a,b\n-999.0,1\nn.d.,2\n", missing=["-999", "n.d."]).columns["a"].kind == "empty"


def test_usual_decimal_mark(written):
    """It decides where numbers have two meanings, but fields between commas have decimal points."""
    note = "numbers are read with decimal points, as in the fit: those of this table have two meanings"
    table = written("a;b\n1,500;2,125\n", decimal=".")
    assert values(table) == {"a": [1500], "b": [2125]}
    assert note in table.notes
    assert values(written("a\tb\n5,118\t1\n", decimal=",")) == {"a": [5.118], "b": [1]}
    assert values(written("a,b\n5.118,1\n", decimal=",")) == {"a": [5.118], "b": [1]}
    assert values(written("a;b\n5.1;1\n", decimal=",")) == {"a": [5.1], "b": [1]}
    assert written("a\tb\n5\t1\n", decimal=",").notes == ["fields are separated by tabs"]


def test_blank_lines_of_one_column_are_missing_values(written):
    table = written("\n\ny\n1\n\n3\n \nx\n\n\n")
    assert table.columns["y"].values.tolist() == ["1", None, "3", None, "x"]
    assert [table.location(row) for row in (0, 2, 4)] == ["line 4", "line 6", "line 8"]
    np.testing.assert_array_equal(written("1\n\n3\n").columns["x0"].values, [1, np.nan, 3])


def test_short_rows_have_missing_values(written):
    table = written("a,b\n1\n2,3\n")
    assert table.columns["b"].missing.tolist() == [True, False]


@pytest.mark.parametrize("name", ["[mg/L]", "<LOD>", "<5 um", "{dose}", "[1]", "<b c>"])
def test_names_may_begin_with_brackets(written, name):
    assert list(written(f"{name},b\n1,2\n3,4\n").columns) == [name, "b"]


def test_a_gzipped_file_larger_than_the_memory_is_refused(written):
    with (
        memory_budget(2**20),
        pytest.raises(ValueError, match=r"must have at most 0 MiB when decompressed, for the memory that is free, got"),
    ):
        written(gzip.compress(b"a,b\n" + b"1,2\n" * 100_000))


def buffer_of(save, *arrays, **named):
    """Return what a function of NumPy writes."""
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


# (name, content, message)
BAD = [
    ("empty", "", r"is empty: it must hold a table, a header in its first line and a row in each other\."),
    ("blank", " \n\n", r"is empty: it must hold"),
    ("names only", "a,b\n", r"has column names but no rows: add the rows\."),
    ("ragged", "a,b\n1,2\n1,2,3\n",
     r"must have 2 fields in each row, as in its first, got 3 in line 3: correct it, put "
     r"quotation marks around fields that hold a delimiter, or remove lines above the names\."),
    ("lines above the names", "made by hand\na,b\n1,2\n3,4\n", r"must have 1 fields in each row, .* got 2 in line 2"),
    ("a quotation mark too few", 'a,b\n1,"u\n2,3\n', r"has a quotation mark in line 2 that is never closed: close or"),
    ("web page", "<html></html>", r"looks like JSON, XML or a web page, not like a table: save the table as CSV"),
    ("JSON", '[{"a": 1}]', r"looks like JSON, XML or a web page, not like a table"),
    ("a list", "[1, 2, 3]", r"looks like JSON"),
    ("an object", '{ "a": 1 }', r"looks like JSON"),
    ("lists", "[\n  [1, 2],\n [3, 4]]", r"looks like JSON"),
    ("XML", '<?xml version="1.0"?><a/>', r"looks like JSON, XML"),
    ("a tag", '<data rows="2">\n<row/></data>', r"looks like JSON, XML"),
    ("half an NPZ", buffer_of(np.savez_compressed, a=np.arange(500.0))[:-300], r"looks like an Excel workbook"),
    ("half an NPY", buffer_of(np.save, np.arange(500.0))[:-300], r"cannot be read as arrays of numbers or strings"),
    ("Excel", b"\xd0\xcf\x11\xe0rest", r"looks like an Excel workbook or a ZIP archive, not like a table: save"),
    ("ZIP", b"PK\x03\x04rest", r"looks like an Excel workbook or a ZIP archive, not like a table: save"),
    ("bytes", b"a\x00\x01b\x02", r"is not text \(it holds zero bytes\): save the table"),
    ("half a gzip", gzip.compress(b"a,b\n1,2\n" * 99)[:25],
     r"cannot be decompressed \(.*\): fetch or write it again\."),
    ("no Parquet", b"PAR1PAR1", r"cannot be read as Parquet \(.*\): write it again\."),
    ("no arrays", b"\x93NUMPYrest",
     r"cannot be read as arrays of numbers or strings \(.*\): save vectors and matrices, not"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_invalid_files(written, content, message):
    with pytest.raises(ValueError, match=message):
        written(content)


def test_invalid_paths(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"must be a file, got a folder: name one of the files in it\."):
        read_table(tmp_path)
    with pytest.raises(ValueError, match=r"does not exist: check the name, and the folder it is in\."):
        read_table(tmp_path / "nowhere.csv")
    (tmp_path / "secret.csv").write_text("a\n1\n")

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refused)
    with pytest.raises(ValueError, match=r"cannot be read \(Permission denied\): check the file and its rights\."):
        read_table(tmp_path / "secret.csv")


def test_other_errors_of_the_parser(written, monkeypatch):
    def broken(*_, **__):
        raise ValueError("no idea")

    monkeypatch.setattr(pd, "read_csv", broken)
    with pytest.raises(ValueError, match=r"cannot be read as a table \(no idea\): check how it was written\."):
        written("a,b\n1,2\n")


# -- Parquet and NumPy -------------------------------------------------------------------------------------------------


def test_parquet(tmp_path):
    frame = pd.DataFrame(
        {
            "a": [1.5, None, 3],
            "n": pd.array([1, None, 3], dtype="Int64"),
            "kind": pd.Categorical(["u", None, "v"]),
            "on": [True, False, True],
            "day": pd.to_datetime(["2021-01-02", None, "2021-01-04"]),
            "list": [[1], [2], [3]],
        }
    )
    frame.to_parquet(tmp_path / "table.csv")  # the suffix does not matter
    table = read_table(tmp_path / "table.csv")
    kinds = {name: column.kind for name, column in table.columns.items()}
    assert kinds == {"a": "number", "n": "number", "kind": "text", "on": "text", "day": "date", "list": "other"}
    assert table.columns["kind"].values.tolist() == ["u", None, "v"]
    assert table.columns["on"].values.tolist() == ["True", "False", "True"]
    assert table.columns["day"].values[0].startswith("2021-01-02")
    assert table.location(1) == "row 2"
    assert "neither numbers nor strings" in table.columns["list"].problem


def test_no_columns(tmp_path):
    pd.DataFrame(index=[1, 2]).to_parquet(tmp_path / "table.parquet", index=False)
    with pytest.raises(ValueError, match=r"has no columns: check how it was written|no rows"):
        read_table(tmp_path / "table.parquet")


def test_numpy(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=np.arange(3), kind=np.array(["u", "v", "u"]))
    table = read_table(tmp_path / "t.npz")
    assert list(table.columns) == ["x0", "x1", "x2", "y", "kind"]
    assert table.columns["kind"].kind == "text"
    np.save(tmp_path / "t.npy", np.eye(2))
    assert list(read_table(tmp_path / "t.npy").columns) == ["x0", "x1"]
    np.save(tmp_path / "s.npy", np.array([(1, "u")], dtype=[("a", int), ("b", "U1")]))
    assert values(read_table(tmp_path / "s.npy")) == {"a": [1.0], "b": ["u"]}
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be read as arrays of numbers or strings"):
        read_table(tmp_path / "o.npy")
    np.savez(tmp_path / "u.npz", X=np.eye(3), y=np.arange(4))
    with pytest.raises(
        ValueError, match=r"must hold vectors and matrices with a row for each sample, got X \(3, 3\), y"
    ):
        read_table(tmp_path / "u.npz")


@pytest.mark.slow
def test_many_rows(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200_000, 3)).round(4), columns=list("aby"))
    frame["kind"] = rng.choice(["u", "v"], len(frame))
    frame["key"] = [f"k{i}" for i in range(len(frame))]
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    task = make_task(read_table(tmp_path / "t.csv"), "y")
    assert list(task.X.columns) == ["a", "b", "kind"]
    assert np.array_equal(task.X["a"], frame["a"])


# -- types of columns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "decimal", "number"),
    [("1,234", ".", 1234), ("1,234", ",", 1.234), ("1.234,5", ",", 1234.5), ("1'000", ".", 1000),
     ("1 234 567", ".", 1234567), (".5", ".", 0.5), ("-1e-3", ".", -1e-3), ("1,5e3", ",", 1500),
     ("12kg", ".", None), ("1,23,4", ".", None), ("1.2.3", ",", None)],
)  # fmt: skip
def test_notations_of_numbers(written, word, decimal, number):
    """The decimal mark of the other column decides where a number has two meanings."""
    column = written(f"a;b\n{word};1{decimal}5\n{word};2{decimal}25\n").columns["a"]
    assert column.values.tolist() == [word if number is None else number] * 2


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=1), st.sampled_from(".,"))
def test_floats_round_trip(tmp_path_factory, numbers, decimal):
    path = tmp_path_factory.mktemp("numbers") / "t.csv"
    words = [repr(x).replace(".", decimal) for x in numbers]
    grouped = "1.234.567" if decimal == "," else "1,234,567"  # not parsed by pandas, nor is the column
    path.write_text(f"a;b;c\n1{decimal}5;{grouped};z\n" + "\n".join(f"{word};{word};z" for word in words))
    table = read_table(path)
    assert table.columns["b"].values.tolist() == [1234567, *numbers]
    # the quick parser of pandas 2 is off by up to a hundred units in the last place
    rtol = 0.0 if int(pd.__version__.split(".")[0]) >= 3 else 1e-12
    np.testing.assert_allclose(table.columns["a"].values, [1.5, *numbers], rtol=rtol)


@pytest.mark.parametrize(
    ("dates", "order"),
    [(["3/4/2021", "13/4/2021", "1/5/2021"], [0, 1, 2]), (["3/4/2021", "3/14/2021", "1/5/2021"], [2, 0, 1]),
     (["3.4.2021", "1.5.2021", "2.4.2021"], [2, 0, 1]), (["2021-03-04", "2021-01-05", "2021-02-06"], [1, 2, 0])],
)  # fmt: skip
def test_day_or_month_first(written, dates, order):
    rows = [f"{day}|{i}|{i % 3}" for i, day in enumerate(dates)] + [f"{dates[order[-1]]} 10:30|{i}|2" for i in (3, 4)]
    task = make_task(written("when|a|y\n" + "\n".join(rows)), "y", time="when")
    assert task.X["a"].tolist() == [*order, 3, 4]


@pytest.mark.parametrize(
    "dates",
    [["2021-01-02", "2021-02-03"], ["2021/01/02", "2021/02/03"], ["02.01.2021", "03.02.2021"],
     ["1/2/2021 10:30", "2/3/2021 11:00"], ["2021-01-02T03:04:05Z", "2021-01-02T03:04:06.5+01:00"],
     ["2 Jan 2021", "13 Feb 2021"], ["January 2, 2021", "Feb 3, 2021"], ["10:30", "11:30"]],
)  # fmt: skip
def test_dates_are_recognised(written, dates):
    table = written("when|y\n" + "\n".join(f"{day}|1" for day in dates))
    assert table.columns["when"].kind == "date"


def test_mixed_column_names_the_line(written):
    table = written("a,b\n1,2\n3,4 kg\n5,6\n")
    assert table.columns["b"].problem == "'4 kg' in line 3 is not a number, unlike most of the column"
    assert not written("a,b\n1,1st\n2,2nd\n3,1st\n").columns["b"].problem
    assert not written("a,b\n1,u\n2,v\n3,17\n").columns["b"].problem


def test_columns_as_text(written):
    table = written("zip,y\n01234,1\n99,2\n", as_text=["zip"])
    assert table.columns["zip"].values.tolist() == ["01234", "99"]


def test_row_number_where_the_line_is_unknown(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "x" * 200_000 + ",1\n" + "1,2\n" * 9 + "1,2 kg\n")
    assert "row 11" in read_table(tmp_path / "t.csv").columns["b"].problem


# -- tasks -------------------------------------------------------------------------------------------------------------


def text(columns, n=30):
    """A table with these columns, functions of the row."""
    rows = [",".join(str(f(i)) for f in columns.values()) for i in range(n)]
    return ",".join(columns) + "\n" + "\n".join(rows) + "\n"


def wave(i):
    return round(float(np.sin(i)), 3)


def test_uninformative_columns_are_excluded(written):
    table = written(
        text(
            {
                "id": lambda i: i + 1,
                "a": wave,
                "same": lambda i: 7,
                "word": lambda i: "w",
                "twin": wave,
                "name": lambda i: f"n{i}",
                "day": lambda i: f"2021-01-{i + 1:02}",
                "nothing": lambda i: "",
                "many": lambda i: f"m{i // 2}",
                "year": lambda i: 1990 + i,
                "y": lambda i: i % 7,
            },
            n=31,
        )
    )
    task = make_task(table, "y")
    assert list(task.X.columns) == ["a", "day", "many", "year"]
    assert task.X["day"].dtype.kind == "M"
    assert task.notes == [
        "y has 7 values; --task classification reads them as classes",
        "left out, identifiers: id",
        "left out, the same in all rows: same, word",
        "left out, the same as a: twin",
        "left out, identifiers or free text, hardly ever repeated: name",
        "left out, empty: nothing",
        "year counts the rows: --drop year unless that means something",
    ]


def test_too_many_categories_are_excluded(written):
    columns = {"a": wave, "many": lambda i: f"k{i % 60}", "kind": lambda i: f"k{i % 1100}", "y": wave}
    task = make_task(written(text(columns, 2300)), "y")
    assert "left out, more than 1000 categories: kind" in task.notes
    assert "many" in task.X


def test_dates_of_other_formats_are_excluded(written):
    table = written(
        text({"a": wave, "when": lambda i: f"{i + 1}/6/2021", "day": lambda i: f"2021-06-{i + 1:02}", "y": wave})
    )
    assert (
        "left out, dates in another format than 2021-12-31 (--time orders by them): when" in make_task(table, "y").notes
    )
    assert "left out, dates (--time orders by them): when, day" in make_task(table, "y", series=True).notes


def test_row_counters_are_excluded(written):
    columns = {"a": wave, "rownames": lambda i: i + 1, "b": lambda i: i, "t": lambda i: i, "y": wave}
    task = make_task(written(text(columns, 60)), "y")
    assert list(task.X.columns) == ["a", "t"]
    assert "left out, identifiers: rownames, b" in task.notes
    assert "t counts the rows: --drop t unless that means something" in task.notes


@pytest.mark.parametrize(
    ("target", "kind", "labels"),
    [(lambda i: "uv"[i % 2], "classification", {"u", "v"}), (lambda i: "uvw"[i % 3], "classification", {"u", "v", "w"}),
     (lambda i: i % 2, "classification", {0, 1}), (lambda i: i % 2 + 0.5, "regression", {0.5, 1.5}),
     (lambda i: i % 3, "regression", {0.0, 1.0, 2.0}), (lambda i: f"c{i % 14}", "classification", None)],
)  # fmt: skip
def test_type_of_the_task(written, target, kind, labels):
    task = make_task(written(text({"a": wave, "y": target})), "y")
    assert task.kind == kind
    assert labels is None or set(task.y.tolist()) == labels


def test_two_hundred_classes(written):
    task = make_task(written(text({"a": wave, "y": lambda i: f"c{i % 200}"}, 1000)), "y")
    assert len(set(task.y)) == 200


def test_type_of_the_task_as_an_option(written):
    table = written(text({"a": wave, "y": lambda i: i % 2, "z": lambda i: i % 3}))
    assert make_task(table, "y", kind="regression").y.dtype == np.float64
    assert make_task(table, "z", kind="classification").y.dtype.kind == "i"


def test_rows_without_a_target_are_excluded(written):
    task = make_task(written(text({"a": wave, "y": lambda i: "" if i % 10 == 3 else wave(i)})), "y")
    assert len(task.y) == len(task.X) == 27
    assert "left out, no value of y: 3 rows" in task.notes


def test_rows_are_sorted_by_time(written):
    table = written(text({"when": lambda i: f"{30 - i}/6/2021", "a": lambda i: i * i, "y": wave}))
    task = make_task(table, "y", time="when")
    assert task.ordered
    assert task.X["a"].tolist() == [i * i for i in range(29, -1, -1)]
    assert "rows are in the order of when, which is not an input" in task.notes
    by_number = make_task(written(text({"t": lambda i: -i, "a": wave, "y": wave})), "y", time="t")
    assert by_number.y.tolist() == [wave(i) for i in range(29, -1, -1)]


def test_rows_without_a_target_are_breaks_of_a_series(written):
    table = written(text({"a": wave, "y": lambda i: "" if i in (3, 28, 29) else wave(i)}))
    assert len(make_task(table, "y").y) == 27
    task = make_task(table, "y", series=True)
    assert np.flatnonzero(np.isnan(task.y)).tolist() == [3]
    assert len(task.y) == len(task.X) == 28
    assert "left out, no value of y: 2 rows" in task.notes


def test_imputation(written):
    table = written(
        text({"a": lambda i: "" if i == 4 else i % 7, "k": lambda i: "" if i == 5 else "uvv"[i % 3], "y": wave})
    )
    assert make_task(table, "y").X.isna().sum().tolist() == [1, 1]
    task = make_task(table, "y", impute=True)
    fill = fill_values(task.X)
    assert fill == {"a": 3.0, "k": "v"}
    X = task.X.fillna(fill)
    assert not X.isna().any().any()
    assert X["a"][4] == 3
    assert X["k"][5] == "v"


def test_columns_with_one_distinct_value_are_excluded(written):
    table = written(
        text({"a": wave, "b": lambda i: 3 if i == 2 else "", "k": lambda i: "" if i else "u", "y": lambda i: f"{i}%"})
    )
    assert list(make_task(table, "y").X.columns) == ["a", "b", "k"]  # that a value is missing may mean something
    task = make_task(table, "y", impute=True)
    assert list(task.X.columns) == ["a"]
    assert task.notes == [
        "y is written with %, which is left out",
        "left out, the same wherever there is a value: b, k",
    ]


def test_imputation_of_empty_columns():
    X = pd.DataFrame({"a": [np.nan, np.nan], "k": pd.Categorical([None, None], categories=["u", "v"])})
    assert fill_values(X) == {"a": 0.0, "k": "u"}
    assert not X.fillna(fill_values(X)).isna().any().any()


# (name, columns, options, message)
INVALID_TASKS = [
    ("a name nearly right", {"Price": wave, "a": wave}, {"target": "prise"},
     r"has no column prise: did you mean Price\?"),
    ("a name quite wrong", {"y": wave, "a": wave}, {"target": "zebra"}, r"has no column zebra: there are y, a\."),
    ("drop nothing", {"y": wave, "a": wave}, {"drop": ["b"]}, r"has no column b: "),
    ("dropped target", {"y": wave, "a": wave}, {"drop": ["y"]}, r"the target y must be a column of its own, got it as"),
    ("several targets", {"y": wave, "a": wave, "y ": wave}, {}, r"has several columns y: rename all but the one"),
    ("target of both kinds", {"a": wave, "y": lambda i: "x" if i == 5 else i}, {},
     r"the target y must be numbers or classes, but 'x' in line 7 is not a number, unlike most of the column: correct"),
    ("dates as target", {"a": wave, "y": lambda i: f"2021-01-{i + 1:02}"}, {},
     r"the target y must be numbers or classes, got dates: name another column\."),
    ("no target", {"a": wave, "y": lambda i: ""}, {},
     r"the target y must be numbers or classes, got missing values only"),
    ("all dropped", {"a": wave, "y": wave}, {"drop": ["a"]},
     r"must have a column to predict from \(none is left by --drop and --time\): drop fewer columns\."),
    ("constant target", {"a": wave, "y": lambda i: 3}, {},
     r"the target y must take different values, got 3 in all rows"),
    ("words to regress on", {"a": wave, "y": lambda i: "uv"[i % 2]}, {"kind": "regression"},
     r"the target y must be numbers for --task regression, got text such as 'u': use --task classification\."),
    ("names as target", {"a": wave, "y": lambda i: f"n{i}"}, {},
     r"the target y must have classes that repeat, got 30 different values in 30 rows: group them, use --task"),
    ("numbers as classes", {"a": wave, "y": lambda i: i}, {"kind": "classification"},
     r"the target y must have classes that repeat, got 30 different values in 30 rows: group them, use --task"),
    ("fractions as classes", {"a": wave, "y": lambda i: 1.5 + i % 2}, {"kind": "classification"},
     r"must be text or whole numbers for --task classification, got 1\.5: --category y reads it as text"),
    ("infinite target", {"a": wave, "y": lambda i: "inf" if i == 2 else i}, {},
     r"y must be finite and below 1e\+100, got inf in line 4: correct it, or use other units\."),
    ("infinite input", {"a": lambda i: "-inf" if i == 2 else i, "y": wave}, {},
     r"a must be finite and below 1e\+100, got -inf in line 4: correct it, use other units, or leave it out: --drop"),
    ("huge input", {"a": lambda i: "1e300" if i == 2 else i, "y": wave}, {}, r"below 1e\+100, got 1e\+300 in line 4"),
    ("stray text", {"a": lambda i: "3 kg" if i == 2 else i, "b c": lambda i: "?!" if i == 3 else i, "y": wave}, {},
     r"must hold numbers or categories, but a: '3 kg' in line 4 .*; b c: '\?!' in line 5 .* Correct this, have a "
     r"word read as a missing value with --missing WORD, or leave out: --drop a --drop 'b c'\."),
    ("tiny input", {"a": lambda i: f"{i}e-200", "y": wave}, {},
     r"a must have values beyond 1e-100, got at most 2\.9e-199: use other units\."),
    ("nothing to learn from", {"y": wave}, {},
     r"must have a column to predict from \(the target is the only one\): add"),
    ("all constant", {"a": lambda i: 1, "b": lambda i: "u", "y": wave}, {},
     r"must have a column to predict from \(left out, the same in all rows: a, b\)"),
    ("time in words", {"a": wave, "t": lambda i: "u", "y": wave}, {"time": "t"},
     r"--time t must be a column of dates or numbers, got text: name another one\."),
    ("time with gaps", {"a": wave, "t": lambda i: "" if i == 4 else i, "y": wave}, {"time": "t"},
     r"--time t must have no missing values, got one in line 6: fill it in\."),
    ("day or month", {"a": wave, "t": lambda i: f"1/{i % 12 + 1}/2021", "y": wave}, {"time": "t"},
     r"--time t must say which number is the day, got dates such as '1/1/2021': write them as 2021-12-31\."),
    ("no such day", {"a": wave, "t": lambda i: f"2021-02-{i + 1:02}", "y": wave}, {"time": "t"},
     r"--time t must be dates, got '2021-02-29' in line 30: correct it, or write dates as 2021-12-31\."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "options", "message"), [b[1:] for b in INVALID_TASKS], ids=[b[0] for b in INVALID_TASKS]
)
def test_invalid_tasks(written, columns, options, message):
    table = written(text(columns))
    with pytest.raises(ValueError, match=message):
        make_task(table, **{"target": "y", **options})


def test_too_few_rows(written):
    with pytest.raises(ValueError, match=r"must have at least 5 rows with a target, got 3: add rows\."):
        make_task(written("a,y\n1,2\n2,3\n5,4\n"), "y")


# -- inputs of a saved model -------------------------------------------------------------------------------------------


def wanted(name, kind="number", categories=None, fill=None, missing=None, unseen=None):
    return Input(name, kind, categories, fill, missing, unseen)


def test_select_inputs(written):
    table = written("k,extra,a\n1,x,2\n2,y,\n", as_text=["k"])
    X = select_inputs(table, [wanted("a", fill=5.0), wanted("k", "category", ["1", "2"])])
    assert X["k"].tolist() == ["1", "2"]
    assert X["a"].isna().tolist() == [False, True]
    assert select_inputs(written("a,b\n,1\n,2\n"), [wanted("a", fill=1.0)])["a"].isna().all()
    inputs = [
        wanted("k", "category", ["1"], None, True, -1.0),
        wanted("a", missing=True),
        wanted("d", "date", missing=True),
    ]
    X = select_inputs(written("k,a,d\n1,2,2021-03-04\n7,,\n,1,2021-03-04T12:00\n", as_text=["k"]), inputs)
    assert X["k"][:2].tolist() == ["1", "7"]
    assert X.isna().sum().tolist() == [1, 1, 1]
    assert X["d"].dtype.kind == "M"


@pytest.mark.parametrize(
    ("content", "message"),
    [("b,k\n1,u\n", r"has no column a"),
     ("x,z\n1,2\n", r"must have the columns the model was fitted with, but a, k are not"),
     ("a,k\nz,u\n", r"must hold numbers in a, as in the fit, but 'z' is not a number: correct it\."),
     ("a,k\n1,u\n,u\n", r"must have no missing values in a, as in the fit, got one in line 3: fill it in, or fit"),
     ("a,k,d\n1,u,3/4/2021\n", r"must hold dates in d, as in the fit, got '3/4/2021' in line 2: write them as 2021"),
     ("a,k\ninf,u\n", r"a must be finite and below")],
)  # fmt: skip
def test_select_inputs_errors(written, content, message):
    table = written(content, as_text=["k"])
    inputs = [wanted("a"), wanted("k", "category", ["u", "v"]), wanted("d", "date")]
    with pytest.raises(ValueError, match=message):
        select_inputs(table, inputs[: 3 if "d" in table.columns else 2])


# -- arbitrary text ----------------------------------------------------------------------------------------------------

FIELDS = st.one_of(
    st.sampled_from(["", "1", "2.5", "-3", "1,5", "NA", "x", "y z", '"', '"a;b"', "2021-01-02", "inf", "1e400",
                     "3 kg", "\t", "#"]),
    st.text(alphabet="ab1.,;\"'|\n \u00e4", max_size=6),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(FIELDS, min_size=1, max_size=4), max_size=12),
    st.sampled_from([",", ";", "\t", "|"]),
    st.booleans(),
    st.booleans(),
)
def test_only_value_errors_on_arbitrary_text(tmp_path_factory, rows, delimiter, header, impute):
    content = ("y,a,b\n".replace(",", delimiter) if header else "") + "\n".join(delimiter.join(row) for row in rows)
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_text(content, encoding="utf-8")
    try:
        table = read_table(path)
        task = make_task(table, next(iter(table.columns)), impute=impute)
    except ValueError:
        return
    X = task.X.fillna(fill_values(task.X))
    assert not X.isna().any().any()
    assert len(X) == len(task.y)
