"""`commonweal data`, run as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.cli.conftest import COMMAND
from tests.data.file_server import serving
from tests.data.small import digits, pictures, write_mnist, write_mnist_m


@pytest.fixture(autouse=True)
def _no_data_of_the_developers(monkeypatch, tmp_path):
    monkeypatch.delenv("COMMONWEAL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


@pytest.fixture
def own_file(tmp_path):
    np.savez(tmp_path / "scans.npz", images=pictures(30, 28, 1), labels=digits(30))
    return "scans.npz"


def test_list_shows_all_sources_without_any_data(commonweal):
    done = commonweal("data", "list")
    assert done.returncode == 0
    rows = {line.split()[0]: line.split()[1:4] for line in done.stdout.splitlines() if line.strip()}
    assert rows["mnist-5k"] == ["built-in", "present", "5,000"]
    assert rows["cifar10"][:2] == ["original", "missing"]
    assert rows["synthdigits-rebuilt"][:2] == ["rebuilt", "missing"]
    assert "NOT the original SynthDigits" in done.stdout


def test_list_shows_imported_sources(commonweal, own_file, tmp_path):
    (tmp_path / own_file).rename(tmp_path / "scans[bold].npz")
    assert commonweal("data", "import", "my-scans", "scans[bold].npz", "--data", "store").returncode == 0
    row = next(line for line in commonweal("data", "list", "--data", "store").stdout.splitlines() if "my-scans" in line)
    assert row.split()[:5] == ["my-scans", "own", "present", "30", "28×28×1"]
    assert "scans[bold].npz" in row


def test_images_of_ones_own_are_imported_from_idx_files(commonweal, tmp_path):
    """Fashion-MNIST as it is published: MNIST's file names and format, other images."""
    files = write_mnist(tmp_path, pictures(30, 28, 1), digits(30))
    done = commonweal("data", "import", "fashion-mnist", *files, "--data", "store")
    assert done.returncode == 0, done.stderr
    assert "fashion-mnist: 30 samples in store/fashion-mnist.npz\n" in done.stdout
    assert "10 classes; grey images of 28×28 pixels\n" in done.stdout
    rows = [line.split() for line in commonweal("data", "list", "--data", "store").stdout.splitlines() if line.split()]
    (row,) = [row for row in rows if row[0] == "fashion-mnist"]
    assert row[:6] == ["fashion-mnist", "own", "present", "30", "28×28×1", "10"]
    (mnist,) = [row for row in rows if row[0] == "mnist"]
    assert mnist[:3] == ["mnist", "original", "missing"]


def test_size_and_classes_of_ones_own_images_can_be_given(commonweal, own_file):
    done = commonweal("data", "import", "scans", own_file, "--size", "20x12", "--classes", "26", "--data", "store")
    assert done.returncode == 0, done.stderr
    assert "26 classes; grey images of 20×12 pixels\n" in done.stdout


def test_import_verify_damage_verify(commonweal, tmp_path):
    files = write_mnist(tmp_path, pictures(30, 28, 1), digits(30))
    imported = commonweal("data", "import", "mnist", *files, "--data", "store")
    assert imported.returncode == 0
    assert "mnist: 30 samples in store/mnist.npz" in imported.stdout
    assert "If these are other images in the same format, import them under a name of their own." in imported.stdout
    assert commonweal("data", "verify", "--data", "store").stdout == "ok       mnist\n"
    (tmp_path / "store" / "mnist.npz").write_bytes(b"rot")
    (tmp_path / "store" / "stranger.npz").write_bytes(b"?")
    damaged = commonweal("data", "verify", "--data", "store")
    assert damaged.returncode == 1
    first, second = damaged.stdout.splitlines()
    assert first.startswith("problem  mnist: mnist.npz has the sha256")
    assert second.startswith("problem  stranger.npz: not in any manifest")
    (tmp_path / "store" / "mnist.npz").unlink()
    assert (
        "mnist.npz is in the manifest, but the file is missing"
        in commonweal("data", "verify", "--data", "store").stdout
    )


def test_the_environment_names_the_directory(commonweal, own_file, tmp_path):
    environment = {**os.environ, "COMMONWEAL_DATA": str(tmp_path / "store")}
    assert commonweal("data", "import", "scans", own_file, env=environment).returncode == 0
    assert (tmp_path / "store" / "scans.npz").exists()
    assert "ok       scans" in commonweal("data", "verify", env=environment).stdout


def test_fetch_downloads_checks_and_imports(commonweal, tmp_path):
    archive = write_mnist_m(tmp_path / "mnist_m.tar.gz", pictures(20, 32, 3), digits(20))
    with serving(archive.read_bytes()) as (address, _):
        done = commonweal("data", "fetch", "mnistm", "--data", "store", "--url", f"{address}/whole/m")
    assert done.returncode == 0, done.stderr
    assert "mnistm: 20 samples in store/mnistm.npz" in done.stdout
    assert "checksums unknown" in done.stdout
    assert (tmp_path / "user-cache" / "commonweal" / "mnist_m.tar.gz").read_bytes() == archive.read_bytes()
    assert "ok       mnistm" in commonweal("data", "verify", "--data", "store").stdout


def test_fetch_of_a_file_that_is_not_the_published_one_is_refused(refused):
    with serving(b"something else") as (address, _):
        sentence = refused("data", "fetch", "svhn", "--data", "store", "--url", f"{address}/whole/x")
    assert "does not have the published md5 e26dedcc434d2e4c54c9b2d4a06d8373" in sentence


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_fetch_can_be_repeated_after_an_interruption(how, commonweal, tmp_path):
    archive = write_mnist_m(tmp_path / "mnist_m.tar.gz", pictures(100, 32, 3), digits(100))
    cache = tmp_path / "cache"
    words = ["data", "fetch", "mnistm", "--data", "store", "--cache", str(cache), "--url"]
    with serving(archive.read_bytes()) as (address, _):
        process = subprocess.Popen([str(COMMAND), *words, f"{address}/hang/m"], cwd=tmp_path, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not any(path.stat().st_size > 0 for path in cache.rglob("tmp*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(how)
        _, error = process.communicate(timeout=60)
        assert process.returncode != 0
        assert b"Traceback" not in error
        assert not (cache / "mnist_m.tar.gz").exists()
        assert not (tmp_path / "store").exists()
        left = [path for path in cache.rglob("*") if path.is_file()]
        assert bool(left) == (how == signal.SIGKILL)
        done = commonweal(*words, f"{address}/whole/m")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in cache.iterdir()] == ["mnist_m.tar.gz"]


def test_help_describes_the_arguments_of_commands(commonweal):
    overview = commonweal("data", "--help").stdout
    assert all(f"│ {command} " in overview for command in ("list", "import", "fetch", "verify"))
    shown = commonweal("data", "import", "--help").stdout
    assert all(
        part in shown for part in ("NAME FILE...", "--data", "--size", "--classes", "COMMONWEAL_DATA", "Example:")
    )


def test_the_overview_stays_quick_to_import():
    """No numpy-heavy package is loaded before a command needs it."""
    script = "import sys, commonweal.cli.data; print(*{'PIL', 'scipy', 'pooch', 'sklearn', 'h5py'} & set(sys.modules))"
    python = COMMAND.with_name("python")
    assert subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["verify"], "Name one with --data DIR or COMMONWEAL_DATA"),
        (["verify", "--data", "nowhere"], "The data directory nowhere is not a folder"),
        (["list", "--data", "nowhere"], "The data directory nowhere is not a folder"),
        (["list", "--data", "scans.npz"], "The data directory scans.npz is not a folder"),
        (["import", "scans", "none.npz", "--data", "store"], "none.npz is not a file"),
        (["import", "scans", "scans.npz", "--data", "scans.npz"], "Cannot write into 'scans.npz': "),
        (["import", "mnist", "scans.npz", "--data", "store"], "The name 'mnist' is reserved for"),
        (["import", "mnist", "text", "text", "--data", "store"], "text is not an idx file"),
        (
            ["import", "scans", "scans.npz", "--size", "5", "--data", "store"],
            "The size must be 8 to 1024 rows and columns, got 5×5",
        ),
        (["import", "scans", "scans.npz", "--size", "28x", "--data", "store"], "such as 20x12, got '28x'"),
        (["import", "scans", "scans.npz", "--classes", "5", "--data", "store"], "labels must be 0 to 4, got 0 to 9"),
        (["import", "scans", "scans.npz", "--classes", "1001", "--data", "store"], "There must be 2 to 1000 classes"),
        (["import", "scans", "text", "text", "--data", "store"], "text is not an idx file: it starts with 68 65 6c 6c"),
        (["import", "broken", "broken.npz", "--data", "store"], "not a complete NumPy .npz file"),
        (["fetch", "mnistm", "--data", "store"], "mnist_m.tar.gz has no stable address"),
        (["fetch", "mnist"], "Name one with --data DIR"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(words, sentence, refused, own_file, tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04")
    assert sentence in refused("data", *words)


def test_a_missing_package_is_reported_with_the_command_to_install_it(tmp_path):
    """Pillow and its like are an extra; without it the sentence names the extra."""
    script = (
        "import sys; sys.modules['scipy.io'] = None; sys.argv = ['commonweal', 'data', 'import', 'svhn', 'x', "
        "'--data', 'store']; from commonweal.cli.main import main; main()"
    )
    (tmp_path / "x").write_text("")
    done = subprocess.run(
        [COMMAND.with_name("python"), "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install 'commonweal[simulation]'" in done.stderr
    assert "Traceback" not in done.stderr
