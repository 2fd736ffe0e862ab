"""Files that are written: whole or not at all, through links, devices and pipes, with the permissions they had."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from termwise import BasisRidge, load_predictor, write_report
from termwise._files import write_file
from termwise.cli import app

X = np.random.default_rng(0).normal(size=(30, 2))
y = X @ [1.0, -2.0]
MODEL = BasisRidge(alpha=0.1).fit(X, y)
WRITERS = {
    "save": MODEL.predictor_.save,
    "export": lambda path: MODEL.predictor_.export(path, to="c"),
    "report": lambda path: write_report(MODEL, path),
}
posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and permissions of POSIX")


@pytest.fixture(params=WRITERS)
def write(request):
    return WRITERS[request.param]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv(path, index=False)
    return path


def invoke(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


@posix
def test_the_replaced_file_keeps_its_permissions_and_a_new_one_has_the_usual(tmp_path, write):
    secret, new = tmp_path / "secret", tmp_path / "new"
    secret.write_text("old")
    secret.chmod(0o640)
    umask = os.umask(0o027)
    try:
        write(secret)
        write(new)
    finally:
        os.umask(umask)
    assert secret.read_text() != "old"
    assert [path.stat().st_mode & 0o777 for path in (secret, new)] == [0o640, 0o640]
    secret.chmod(0o600)
    write(secret)
    assert secret.stat().st_mode & 0o777 == 0o600


@posix
def test_the_target_of_a_link_is_replaced_not_the_link(tmp_path, write):
    (tmp_path / "there").mkdir()
    target, link, dangling = tmp_path / "there" / "model", tmp_path / "link", tmp_path / "dangling"
    target.write_text("old")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "there" / "none_yet")
    write(link)
    write(dangling)
    assert link.is_symlink()
    assert target.read_text() != "old"
    assert (tmp_path / "there" / "none_yet").read_text() == target.read_text()
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["model", "none_yet"]


def read_pipe(pipe, write):
    """Return what a function writes to a new pipe, and what it returns."""
    got = []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    result = write(pipe)
    reader.join()
    return got[0], result


@posix
def test_pipes_are_written_to(tmp_path, write):
    got, _ = read_pipe(tmp_path / "pipe", write)
    write(tmp_path / "file")
    assert got == (tmp_path / "file").read_bytes()
    assert (tmp_path / "pipe").is_fifo()


@posix
def test_devices_are_written_to():
    own, terminal = os.openpty()
    name = os.ttyname(terminal)
    write_file(name, "text")
    assert os.read(own, 100) == b"text"
    assert os.stat(name).st_rdev == os.fstat(terminal).st_rdev
    os.close(terminal)
    os.close(own)


@posix
def test_the_command_line_writes_to_a_pipe_without_force(tmp_path, table):
    command = "fit", table, "-t", "y", "--method", "ridge", "--no-hold-out", "-o"
    got, (code, output) = read_pipe(tmp_path / "pipe", lambda pipe: invoke(*command, pipe))
    assert code == 0, output
    (tmp_path / "m.json").write_bytes(got)
    assert load_predictor(tmp_path / "m.json").input_names == ["a", "b"]


@posix
def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path, write):
    code = (
        "import os, signal, sys\nfrom termwise._files import write_file\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\nwrite_file(sys.argv[1], 'new')"
    )
    (tmp_path / "model").write_text("old")
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")]).returncode == -9
    assert (tmp_path / "model").read_text() == "old"
    assert len(list(tmp_path.glob(".termwise-*.part"))) == 1
    write(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@posix
def test_writers_at_once_do_not_disturb_each_other(tmp_path):
    texts = [str(i) * 1000 for i in range(6)]
    code = (
        "import sys\nfrom termwise._files import write_file\nfor _ in range(40): write_file(sys.argv[1], sys.argv[2])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "model")]
    writers = [subprocess.Popen([*command, text]) for text in texts]
    assert [one.wait() for one in writers] == [0] * len(texts)
    assert (tmp_path / "model").read_text() in texts
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_full_disk_is_one_sentence_with_the_name_of_the_file(tmp_path, write, monkeypatch):
    path = tmp_path / "model"
    path.write_text("old")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    message = r"model cannot be written \(No space left on device\): check its folder, the permissions and the free sp"
    with pytest.raises(OSError, match=message) as caught:
        write(path)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_folders_that_are_no_place_for_a_file(tmp_path, write):
    with pytest.raises(FileNotFoundError, match=r"where\.json cannot be written \(No such file or directory\): check"):
        write(tmp_path / "no" / "where.json")
    with pytest.raises(OSError, match=r"cannot be written \(.*\): check its folder"):
        write(tmp_path)


def test_two_outputs_of_one_command_must_differ(tmp_path, table):
    path = tmp_path / "m.json"
    for report in (path, tmp_path / "." / "m.json", tmp_path / "link"):
        if report.name == "link":
            report.symlink_to(path)
        code, output = invoke("fit", table, "-t", "y", "-o", path, "--report", report)
        assert code == 2
        assert "-o and --report must be different files, got" in output
        assert not path.exists()
