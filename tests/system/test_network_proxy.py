"""Isolated programs reach the hosts of their profile through a proxy, and nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.git_repositories import git, with_a_commit
from support.web_server import Request, Site, served

from playbook_supervisor.errors import StorageError
from playbook_supervisor.system.isolation import bubblewrap, profiles
from playbook_supervisor.system.isolation.network_proxy import Hosts, Proxy
from playbook_supervisor.system.isolation.profiles import Profile
from playbook_supervisor.system.isolation.sandbox import Sandbox
from playbook_supervisor.system.process.processes import Completed, Worker, run

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or bool(bubblewrap.problem()[0]), reason="bubblewrap does not work here"
)

CURL = ("curl", "--silent", "--show-error")
SENDS = """
import socket, sys
with socket.create_connection(("127.0.0.1", 3128)) as proxy:
    proxy.sendall(sys.stdin.buffer.read())
    while data := proxy.recv(65536):
        sys.stdout.buffer.write(data)
"""


class Inside:
    """Runs programs in isolation, in a folder of their own, by default through the proxy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        (folder / "home").mkdir()
        self.profile = Profile(
            home=folder / "home",
            folder=self.folder,
            writable=(self.folder,),
            hidden=profiles.TEMPORARY,
            shown=tuple({Path(sys.prefix), Path(sys.base_prefix)}),
        )

    def sandbox(self, *hosts: str, network: profiles.Network = "proxy") -> Sandbox:
        return Sandbox(replace(self.profile, hosts=hosts, network=network), bubblewrap.NAME)

    def run(self, *argv: str, hosts: tuple[str, ...] = (), stdin: bytes = b"") -> Completed:
        sandbox = self.sandbox(*hosts)
        return run(argv, cwd=self.folder, stdin=stdin, timeout=60, isolation=sandbox)

    def python(self, code: str, *args: str, hosts: tuple[str, ...] = ()) -> Completed:
        return self.run(sys.executable, "-I", "-c", code, *args, hosts=hosts)

    def send(self, data: bytes, *hosts: str) -> str:
        """What the proxy answers to these bytes."""
        return self.run(sys.executable, "-c", SENDS, hosts=hosts, stdin=data).stdout


@pytest.fixture
def inside(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


@pytest.fixture
def site() -> Iterator[Site]:
    def echo(request: Request) -> None:
        request.answer(request.body, X_Asked=request.headers["Host"])

    with served({"/": lambda request: request.answer("hello\n"), "/echo": echo}) as site:
        yield site


def shown(file: Path) -> Callable[[Request], None]:
    return lambda request: request.answer(file.read_bytes())


def port_of(site: Site) -> str:
    return f"localhost:{site.server_port}"


def left_in_tmp() -> set[str]:
    return {each.name for each in Path("/tmp").glob(f"playbook-proxy-{os.getpid()}-*")}


class TestAHostThatIsListed:
    def test_answers_curl_by_a_request(self, inside: Inside, site: Site) -> None:
        assert inside.run(*CURL, site.url, hosts=(port_of(site),)).stdout == "hello\n"

    def test_answers_curl_through_a_tunnel(self, inside: Inside, site: Site) -> None:
        argv = (*CURL, "--proxytunnel", site.url)
        assert inside.run(*argv, hosts=(port_of(site),)).stdout == "hello\n"

    def test_is_cloned_by_git(self, inside: Inside, site: Site, tmp_path: Path) -> None:
        origin = with_a_commit(tmp_path / "origin")
        git(origin, "update-server-info")
        files = [each for each in (origin / ".git").rglob("*") if each.is_file()]
        for file in files:
            site.pages[f"/r.git/{file.relative_to(origin / '.git')}"] = shown(file)
        argv = ("git", "clone", "--quiet", f"{site.url}/r.git", "clone")
        done = inside.run(*argv, hosts=(port_of(site),))
        assert (done.returncode, done.stderr) == (0, "")
        assert git(inside.folder / "clone", "rev-parse", "HEAD") == git(origin, "rev-parse", "HEAD")

    def test_is_the_one_that_the_certificate_names(self, inside: Inside) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(inside.folder / "ca.pem"))
        certificate = authority.issue_cert("localhost")
        pages = {"/": lambda request: request.answer("sealed\n")}
        with served(pages, certificate.configure_cert) as site:
            argv = (*CURL, "--cacert", "ca.pem", site.url)
            assert inside.run(*argv, hosts=(port_of(site),)).stdout == "sealed\n"

    def test_is_asked_by_the_name_of_the_address_and_not_of_a_header(
        self, inside: Inside, site: Site
    ) -> None:
        asked = f"GET {site.url}/echo HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"
        assert f"X-Asked: {port_of(site)}\r\n" in inside.send(asked.encode(), port_of(site))

    def test_sees_no_header_for_the_proxy(self, inside: Inside, site: Site) -> None:
        argv = (*CURL, "--proxy-user", "me:secret", site.url)
        inside.run(*argv, hosts=(port_of(site),))
        assert not [name for name in site.requests[0].headers if name.startswith("Proxy-")]


class TestAHostThatIsNotListed:
    @pytest.mark.parametrize(
        ("url", "entry"),
        [
            ("http://example.com:8080/", "example.com:8080"),
            ("http://EXAMPLE.com./", "example.com"),
            ("http://listed.example:8080/", "listed.example:8080"),
            ("http://listed.example.evil.example/", "listed.example.evil.example"),
            ("http://below.example/", "below.example"),
            ("http://[::ffff:127.0.0.1]/", '"[::ffff:7f00:1]"'),
            ("http://2130706433/", "2130706433"),
        ],
    )
    def test_is_refused_with_the_line_that_would_allow_it(
        self, inside: Inside, url: str, entry: str
    ) -> None:
        answer = inside.send(
            f"GET {url} HTTP/1.1\r\n\r\n".encode(), "listed.example", "*.below.example"
        )
        assert answer.startswith("HTTP/1.1 403 ")
        said = f"Add it under `isolation: {{hosts: [{entry}]}}` in .playbooks/config.yaml\n"
        assert answer.endswith(said)

    def test_is_not_reached_by_a_second_request_in_the_first(
        self, inside: Inside, site: Site
    ) -> None:
        with served({"/": lambda request: request.answer("secret\n")}) as other:
            both = f"GET {site.url}/ HTTP/1.1\r\n\r\nGET {other.url}/ HTTP/1.1\r\n\r\n"
            assert "secret" not in inside.send(both.encode(), port_of(site))
            assert not other.requests

    def test_is_named_to_the_person(self, inside: Inside) -> None:
        worker = Worker(
            [*CURL, "--fail", "http://a.example", "http://b.example:81"],
            cwd=inside.folder,
            isolation=inside.sandbox("c.example"),
        )
        list(worker.lines())
        assert worker.hint == (
            "Not allowed: a.example, b.example:81. Add it under "
            "`isolation: {hosts: [a.example, b.example:81]}` in .playbooks/config.yaml"
        )


class TestANameThatLeadsElsewhere:
    """The resolver's answers are a table: nothing on loopback has such names."""

    @pytest.fixture
    def resolver(self, monkeypatch: pytest.MonkeyPatch, site: Site) -> dict[str, list[str]]:
        table: dict[str, list[str]] = {}

        def resolve(host: str, port: int, **_: Any) -> list[Any]:
            address = table[host].pop(0)
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            return [(family, socket.SOCK_STREAM, 6, "", (address, site.server_port))]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        return table

    @pytest.mark.parametrize(
        "address",
        [
            *("127.0.0.1", "::1", "192.168.1.1", "169.254.169.254", "::ffff:127.0.0.1"),
            *("64:ff9b::7f00:1", "fd00::1", "100.100.100.200"),
        ],
    )
    def test_is_refused_where_only_what_is_above_it_is_listed(
        self, inside: Inside, resolver: dict[str, list[str]], address: str, site: Site
    ) -> None:
        resolver["db.corp.example"] = [address]
        answer = inside.send(b"GET http://db.corp.example/ HTTP/1.1\r\n\r\n", "*.corp.example")
        assert "Not allowed: db.corp.example leads to a private network." in answer
        assert not site.requests

    def test_is_reached_where_it_is_listed_itself(
        self, inside: Inside, resolver: dict[str, list[str]]
    ) -> None:
        resolver["db.corp.example"] = ["127.0.0.1"]
        answer = inside.send(b"GET http://db.corp.example/ HTTP/1.1\r\n\r\n", "db.corp.example")
        assert answer.endswith("hello\n")

    def test_is_looked_up_once(self, inside: Inside, resolver: dict[str, list[str]]) -> None:
        resolver["rebinds.example"] = ["127.0.0.1", "169.254.169.254"]
        inside.send(b"GET http://rebinds.example/ HTTP/1.1\r\n\r\n", "rebinds.example")
        assert resolver["rebinds.example"] == ["169.254.169.254"]

    def test_that_is_refused_is_not_looked_up(
        self, inside: Inside, resolver: dict[str, list[str]]
    ) -> None:
        resolver["my-secret.evil.example"] = ["127.0.0.1"]
        inside.send(b"CONNECT my-secret.evil.example:443 HTTP/1.1\r\n\r\n", "good.example")
        assert resolver["my-secret.evil.example"] == ["127.0.0.1"]


class TestAHostileClient:
    @pytest.mark.parametrize(
        "data",
        [
            b"\0\xff\xfe\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET http://localhost\\@evil.example/ HTTP/1.1\r\n\r\n",
            b"GET http://localhost%00.example/ HTTP/1.1\r\n\r\n",
            b"CONNECT http://localhost/ HTTP/1.1\r\n\r\n",
            b"GET http://localhost/ HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            b"GET http://localhost/ HTTP/1.1\r\nX: " + b"x" * 200_000,
        ],
        ids=range(7),
    )
    def test_is_told_that_it_is_not_understood(self, inside: Inside, data: bytes) -> None:
        assert inside.send(data, "localhost").startswith("HTTP/1.1 400 ")

    def test_that_is_slow_holds_up_no_other(self, inside: Inside, site: Site) -> None:
        code = f"""
import socket, urllib.request
slow = socket.create_connection(("127.0.0.1", 3128))
slow.sendall(b"GET {site.url}/ HT")
print(urllib.request.urlopen("{site.url}").read())
slow.sendall(b"TP/1.1\\r\\n\\r\\n")
print(slow.makefile("rb").read()[-6:])
"""
        done = inside.python(code, hosts=(port_of(site),))
        assert done.stdout == "b'hello\\n'\nb'hello\\n'\n"

    def test_with_many_connections_is_answered_up_to_a_limit(
        self, inside: Inside, site: Site
    ) -> None:
        code = f"""
import select, socket, time
many = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(140)]
refused = []
while len(refused) < 12:
    refused, _, _ = select.select(many, [], [], 10)
print({{each.recv(12) for each in refused}})
served = [each for each in many if each not in refused]
for each in served:
    each.sendall(b"GET {site.url}/ HTTP/1.1\\r\\n\\r\\n")
    assert each.makefile("rb").read().endswith(b"hello\\n")
print(len(served))
"""
        done = inside.python(code, hosts=(port_of(site),))
        assert done.stdout == "{b'HTTP/1.1 503'}\n128\n"

    def test_that_reads_nothing_does_not_keep_the_proxy_open(
        self, inside: Inside, site: Site
    ) -> None:
        def endless(request: Request) -> None:
            while request.write(b"x" * 65_536):
                pass

        site.pages["/endless"] = endless
        code = f"""
import socket
with socket.create_connection(("127.0.0.1", 3128)) as proxy:
    proxy.sendall(b"GET {site.url}/endless HTTP/1.1\\r\\n\\r\\n")
    print(len(proxy.recv(10)))
"""
        before = threading.active_count()
        assert inside.python(code, hosts=(port_of(site),)).stdout == "10\n"
        ends = time.monotonic() + 10
        while threading.active_count() > before and time.monotonic() < ends:
            time.sleep(0.01)
        assert threading.active_count() <= before


class TestAProgramInside:
    @pytest.mark.parametrize("network", ["proxy", "none"])
    def test_reaches_no_server_directly(
        self, inside: Inside, site: Site, network: profiles.Network
    ) -> None:
        argv = [*CURL, "--noproxy", "*", f"http://127.0.0.1:{site.server_port}"]
        sandbox = inside.sandbox(port_of(site), network=network)
        assert run(argv, cwd=inside.folder, isolation=sandbox).returncode == 7
        assert not site.requests

    def test_reaches_no_socket_of_a_proxy(self, inside: Inside, tmp_path: Path) -> None:
        with closing(Proxy(["example.com"])):
            code = """
import glob, socket
for path in ("/run/playbook/proxy", *glob.glob("/tmp/**/proxy", recursive=True)):
    try:
        socket.socket(socket.AF_UNIX).connect(path)
    except OSError as error:
        print(path, type(error).__name__)
"""
            done = inside.python(code, hosts=("localhost",))
            assert done.stdout == "/run/playbook/proxy ConnectionRefusedError\n"

    def test_is_told_of_the_proxy_by_variables(
        self, inside: Inside, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setenv("HTTPS_PROXY", "http://elsewhere.example")
        told = dict(line.split("=", 1) for line in inside.run("env").stdout.splitlines())
        names = [f"{each}_PROXY" for each in ("HTTP", "HTTPS", "ALL")]
        assert {told[name] for name in (*names, *map(str.lower, names))} == {
            "http://127.0.0.1:3128"
        }
        assert told["NO_PROXY"] == told["no_proxy"] == "localhost,127.0.0.1,::1"

    def test_has_the_exit_status_the_input_and_the_outputs_of_its_own(self, inside: Inside) -> None:
        done = inside.run("sh", "-c", "cat; echo worse >&2; exit 7", stdin=b"given")
        assert (done.returncode, done.stdout, done.stderr) == (7, "given", "worse\n")

    def test_ignores_no_signal_and_inherits_no_descriptor(self, inside: Inside) -> None:
        look = "grep SigIgn /proc/self/status"
        outside = subprocess.run(["sh", "-c", look], capture_output=True, check=True, text=True)
        done = inside.run("sh", "-c", f"{look}; ls /proc/$$/fd")
        assert done.stdout.split() == [*outside.stdout.split(), "0", "1", "2"]

    def test_that_does_not_exist_is_a_clear_error_and_leaves_nothing(self, inside: Inside) -> None:
        threads, before = threading.active_count(), left_in_tmp()
        with pytest.raises(StorageError, match="cannot start 'no-such-program'"):
            inside.run("no-such-program")
        assert (threading.active_count(), left_in_tmp()) == (threads, before)

    def test_takes_its_proxy_along(self, inside: Inside, site: Site) -> None:
        threads, before = threading.active_count(), left_in_tmp()
        inside.run("sh", "-c", f"sleep 60 & curl -s {site.url}", hosts=(port_of(site),))
        ends = time.monotonic() + 10
        while threading.active_count() > threads and time.monotonic() < ends:
            time.sleep(0.01)
        assert left_in_tmp() == before
        assert threading.active_count() <= threads


def test_an_entry_is_a_host_a_port_or_all_below_a_host() -> None:
    hosts = Hosts(
        ["a.example", "B.example:8443", "*.c.example", "[::1]:80", "10.0.0.1", "no/host", "d:99999"]
    )
    assert hosts.listed("a.example", 443)
    assert hosts.listed("a.example", 80)
    assert not hosts.listed("a.example", 22)
    assert hosts.listed("b.example", 8443)
    assert not hosts.listed("b.example", 443)
    assert hosts.below("x.y.c.example", 443)
    assert not hosts.below("c.example", 443)
    assert hosts.listed("::1", 80)
    assert hosts.listed("10.0.0.1", 80)
    assert not hosts.listed("d", 99999)


def test_where_nothing_has_a_network_of_its_own_the_proxy_listens_on_loopback(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with closing(Proxy([port_of(site)])) as proxy:
        assert proxy.command(["true"]) == ["true"]
        assert not list(proxy.lent())
        asked = f"GET {site.url}/ HTTP/1.1\r\n\r\n"
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(asked.encode())
            assert client.makefile("rb").read().endswith(b"hello\n")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))
