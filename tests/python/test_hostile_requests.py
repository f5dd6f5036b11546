"""The playground's server answers this machine's pages alone, with files of its site alone."""

import http.client
import shutil
import socket
import threading
from pathlib import Path

import pytest

from polypath.play import PlayError, serve

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The page without the simulator, a link that leads out, one that does not, and a folder."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secretive")
    site = outside / "site"
    shutil.copytree(ROOT / "web", site)
    (site / "polypath.wasm").write_bytes(b"")
    (site / "link.txt").symlink_to(outside / "secret.txt")
    (site / "folder-link").symlink_to(outside)
    (site / "loop").symlink_to("loop")
    (site / "folder").mkdir()
    (site / "folder" / "text.txt").write_text("plain")
    return site


@pytest.fixture(scope="module")
def port(site):
    found, is_up = [], threading.Event()
    threading.Thread(
        target=serve, args=(0,), kwargs={"site": site, "ready": lambda at: (found.append(at), is_up.set())}, daemon=True
    ).start()
    assert is_up.wait(60)
    return int(found[0].rstrip("/").rpartition(":")[2])


def asked(port, path, host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_files_of_the_site_are_given_with_what_a_browser_may_make_of_them(port):
    for path in ("/", "/index.html", "/main.js?x=1", "/folder/text.txt"):
        answer, content = asked(port, path)
        assert (answer.status, bool(content)) == (200, True)
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        policy = answer.getheader("Content-Security-Policy")
        assert policy.startswith("default-src 'none'; script-src 'self' 'wasm-unsafe-eval';")
        assert "frame-ancestors 'none'" in policy
    assert asked(port, "/", f"localhost:{port}")[0].status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:1", "localhost.evil.example:{port}", "0.0.0.0:{port}", ""]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_who_asks_under_another_name_gets_nothing(port, host, method):
    answer, content = asked(port, "/index.html", host.format(port=port), method)
    assert answer.status == 421
    assert b"polypath" not in content.lower()


OUTSIDE = [
    "/link.txt",
    "/folder-link/secret.txt",
    "/folder-link/",
    "/loop",
    "/../secret.txt",
    "/%2e%2e/secret.txt",
    "//etc/passwd",
    "/..%2fsecret.txt",
]


@pytest.mark.parametrize("path", [*OUTSIDE, "/index.html%00", "/%00", "/folder/", "/nothing", "/folder/../../secret.txt"])
def test_nothing_outside_is_given_and_no_path_is_a_traceback(port, path, capfd):
    answer, content = asked(port, path)
    assert answer.status == 404
    assert b"secretive" not in content
    assert "Traceback" not in "".join(capfd.readouterr())


def test_the_page_breaks_no_rule_of_its_own(port, chromium):
    page, said = chromium.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.goto(f"http://127.0.0.1:{port}/", wait_until="networkidle")
    assert [text for text in said if "Content Security Policy" in text] == []
    page.close()


@pytest.fixture(scope="module")
def class_port(site):
    found, is_up = [], threading.Event()
    threading.Thread(
        target=serve,
        args=(0,),
        kwargs={"site": site, "host": "0.0.0.0", "ready": lambda at: (found.append(at), is_up.set())},
        daemon=True,
    ).start()
    assert is_up.wait(60)
    # What it prints is an address that others can open.
    assert "0.0.0.0" not in found[0]
    return int(found[0].rstrip("/").rpartition(":")[2])


def test_a_class_reaches_it_by_address_and_by_this_machine_s_name(class_port):
    for host in ("192.168.7.9", "127.0.0.1", "localhost", socket.gethostname(), f"{socket.gethostname()}.local"):
        assert asked(class_port, "/", f"{host}:{class_port}")[0].status == 200, host


@pytest.mark.parametrize("host", ["evil.example", "192.168.7.9.evil.example", "192.168.7.9:1", "[::1", ""])
def test_a_name_of_elsewhere_gets_nothing_from_a_class_s_page_either(class_port, host):
    assert asked(class_port, "/index.html", host)[0].status == 421


@pytest.mark.parametrize("host", ["192.0.2.77", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_named(site, host):
    with pytest.raises(PlayError, match=f"^{host} is no address of this machine: name one that is, or --host 0.0.0.0 for all of them$"):
        serve(0, host=host, site=site, ready=print)
