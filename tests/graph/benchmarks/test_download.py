from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest

from m3dphormer.graph.benchmarks import download as module
from m3dphormer.graph.benchmarks.download import download, unpack

CONTENT = bytes(range(256)) * 1000


class Home(BaseHTTPRequestHandler):
    """``/whole`` sends all, ``/half`` stops in the middle, ``/page`` is a firewall's answer."""

    def do_GET(self) -> None:
        if self.path == "/missing":
            self.send_error(404, "Not Found")
            return
        self.send_response(200)
        kind = "text/html; charset=utf-8" if self.path == "/page" else "application/octet-stream"
        self.send_header("Content-Type", kind)
        if self.path != "/unsized":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if self.path == "/half" else CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def home() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Home)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("name", ["whole", "unsized"])
def test_a_file_arrives_whole_and_silently_without_a_terminal(
    home: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    download(f"{home}/{name}", tmp_path / "deep" / "file")
    assert (tmp_path / "deep" / "file").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "message"),
    [("half", "128000 of 256000 bytes"), ("page", "web page"), ("missing", "Not Found")],
)
def test_what_does_not_arrive_whole_leaves_nothing(
    home: str, tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(OSError, match=message):
        download(f"{home}/{name}", tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_download_leaves_nothing_and_keeps_what_was_there(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.Progress, "update", stop)
    with pytest.raises(KeyboardInterrupt):
        download(f"{home}/whole", tmp_path / "file")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_closed_port_is_an_os_error(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Home) as server:
        port = server.server_port
    with pytest.raises(OSError, match="refused"):
        download(f"http://127.0.0.1:{port}/whole", tmp_path / "file")


def test_the_progress_bar_is_on_stderr_of_a_terminal(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True)
    download(f"{home}/whole", tmp_path / "file")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "file" in printed.err


def test_unpack_writes_the_named_members_only(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with ZipFile(archive, "w") as opened:
        opened.writestr("../evil", "no")
        opened.writestr("top/wanted", "yes")
    unpack(archive, {"top/wanted": tmp_path / "out" / "file"})
    assert (tmp_path / "out" / "file").read_text() == "yes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "out"]
