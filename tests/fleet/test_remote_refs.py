"""A remote that refuses is told from one that is away, by what git and the remote say."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from support.git_repositories import git

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.fleet.engine.remote_refs import RemoteRefs
from playbook_supervisor.system.git.git_plumbing import Plumbing

REF = "refs/playbook/sessions/20261125-abc"
ALL = ("https", "ssh", "file")
REFUSED, AWAY = "PB-FLEET-REFUSED", "PB-GIT-REMOTE"


class Site:
    """A repository with a commit, and a bare one to which it is pushed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.remote = folder, folder / "remote.git"
        git(folder, "init", "-q", str(folder / "own"))
        git(folder / "own", "commit", "-q", "--allow-empty", "-m", "Begin")
        self.commit = git(folder / "own", "rev-parse", "HEAD")
        git(folder, "init", "-q", "--bare", str(self.remote))

    def refs(self, url: str = "", seconds: float = 20.0) -> RemoteRefs:
        mine = Plumbing(self.folder / "own" / ".git")
        return RemoteRefs(mine, url or f"file://{self.remote}", ALL, seconds)

    def hook(self, text: str, name: str = "pre-receive") -> None:
        hook = self.remote / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{text}\nexit 1\n")
        hook.chmod(0o755)

    def push_again(self) -> PlaybookError:
        """What is said to a push after a first one, with a branch."""
        refs = self.refs()
        if not git(self.remote, "for-each-ref"):
            refs.move(REF, "", self.commit)
        new = git(self.folder / "own", "commit-tree", "-m", "x", "HEAD^{tree}")
        with pytest.raises(PlaybookError) as error:
            refs.move(REF, self.commit, new, branch=("work", new))
        return error.value


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def said(refs: RemoteRefs) -> PlaybookError:
    with pytest.raises(PlaybookError) as error:
        refs.now(REF)
    with pytest.raises(PlaybookError) as fetched:
        refs.fetch("refs/heads/*:refs/heads/*")
    assert fetched.value.code == error.value.code
    return error.value


def test_the_words_of_a_hook_are_shown_on_a_line_and_kept_as_the_cause(site: Site) -> None:
    site.refs().move(REF, "", site.commit)
    site.hook("echo only on Mondays >&2; echo ask Ada >&2")
    error = site.push_again()
    assert error.code == REFUSED
    assert error.message == f"file://{site.remote} refuses git push: only on Mondays ask Ada"
    assert "remote: only on Mondays\nremote: ask Ada" in error.cause


def test_a_hook_that_says_nothing_leaves_gits_own_reason(site: Site) -> None:
    site.refs().move(REF, "", site.commit)
    site.hook("")
    assert site.push_again().message.endswith("refuses git push: pre-receive hook declined")


def test_a_branch_that_is_refused_alone_is_named(site: Site) -> None:
    site.refs().move(REF, "", site.commit)
    site.hook("case $1 in refs/heads/*) echo protected >&2; exit 1; esac; exit 0", "update")
    error = site.push_again()
    assert error.code == "PB-FLEET-BRANCH-REFUSED"
    assert "refuses the branch work: protected" in error.message


def test_hostile_words_are_cleaned_and_cut(site: Site) -> None:
    site.refs().move(REF, "", site.commit)
    long = "x" * 10_000
    site.hook(
        f"printf '\\033[2Jno, https://ada:sesame@forge.example/ \\342\\200\\256 {long}\\n' >&2"
    )
    error = site.push_again()
    assert error.message.isprintable()
    assert len(error.message) < 600
    assert len(error.cause) < 3_000
    assert "no, https://forge.example/" in error.message
    assert "sesame" not in f"{error.message}{error.cause}"


@pytest.mark.parametrize(
    "words", ["GitLab: Internal API unreachable", "cannot lock ref, try again later"]
)
def test_a_forge_that_cannot_answer_now_is_away_even_if_its_hook_declines(
    site: Site, words: str
) -> None:
    site.refs().move(REF, "", site.commit)
    site.hook(f"echo '{words}' >&2")
    assert site.push_again().code == AWAY


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("git@forge.example: Permission denied (publickey).", REFUSED),
        ("ERROR: Repository not found.", REFUSED),
        ("fatal: '/acme/widgets' does not appear to be a git repository", REFUSED),
        ("ssh: Could not resolve hostname forge.example: Name or service not known", AWAY),
        ("ssh: connect to host forge.example port 22: Permission denied", AWAY),
        ("something that is said for the first time", AWAY),
        ("", AWAY),
    ],
)
def test_ssh_tells_a_refusal_from_a_silence(
    site: Site, monkeypatch: pytest.MonkeyPatch, words: str, code: str
) -> None:
    script = site.folder / "ssh"
    script.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{words}\nEND\nexit 255\n")
    script.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    error = said(site.refs("ssh://git@forge.example/acme/widgets"))
    assert error.code == code
    assert words in error.cause
    assert code == AWAY or words.split(": ")[-1] in error.message


def test_a_folder_that_is_gone_may_only_not_be_mounted(site: Site) -> None:
    site.remote.rename(site.folder / "elsewhere.git")
    assert said(site.refs()).code == AWAY


class _Status(BaseHTTPRequestHandler):
    """Answers every request with one status, the first part of the path."""

    def do_GET(self) -> None:
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(folder: Path) -> Iterator[str]:
    """The address of a server on this machine; clients have to trust `folder/authority.pem`."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Status) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, REFUSED), (404, REFUSED), (429, AWAY), (500, AWAY)],
)
def test_https_tells_a_refusal_from_a_server_that_cannot_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    with answering(site.folder) as address:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(site.folder / "authority.pem"))
        assert said(site.refs(f"{address}/{status}/widgets")).code == code
    assert said(site.refs(f"{address}/{status}/widgets")).code == AWAY


@pytest.mark.long
def test_a_listing_has_a_minute_and_a_push_five_whatever_a_fetch_may_take(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.fleet.engine.remote_refs.LISTING", 0.2)
    monkeypatch.setattr("playbook_supervisor.fleet.engine.remote_refs.PUSHING", 0.2)
    monkeypatch.setenv("GIT_SSH_COMMAND", "sleep 5 #")
    refs = site.refs("ssh://git@forge.example/acme/widgets", seconds=60.0)
    for call in (lambda: refs.now(REF), lambda: refs.move(REF, "", site.commit)):
        with pytest.raises(PlaybookError, match="got no answer in time") as error:
            call()
        assert error.value.code == AWAY
