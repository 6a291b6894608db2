"""Which addresses of repositories the fleet accepts, and how it writes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.engine.remotes import mirror_name, normalised, repository_name

ALL = ("https", "ssh", "file")


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("https://forge.example/acme/widgets.git", "https://forge.example/acme/widgets.git"),
        ("HTTPS://Forge.Example:8443/Acme/Widgets/", "https://forge.example:8443/Acme/Widgets"),
        ("ssh://git@Forge.example/acme/widgets", "ssh://git@forge.example/acme/widgets"),
        ("ssh://git@[::1]:22/~ada/widgets", "ssh://git@[::1]:22/~ada/widgets"),
        ("git@Forge.example:acme/widgets.git", "git@forge.example:acme/widgets.git"),
        ("git@forge.example:/srv/widgets.git", "git@forge.example:/srv/widgets.git"),
        ("file:///srv/widgets.git", "file:///srv/widgets.git"),
        ("/srv/my%widgets.git", "file:///srv/my%25widgets.git"),
        ("https://forge.example/über/%C3%BCber", "https://forge.example/über/%C3%BCber"),
    ],
)
def test_an_address_is_written_in_one_way(given: str, written: str) -> None:
    assert normalised(given, ALL) == written
    assert normalised(written, ALL) == written


@pytest.mark.parametrize(
    "address",
    [
        "",
        "--upload-pack=sh",
        "widgets",
        "forge.example:acme/widgets",
        "ext::sh -c id",
        "http://forge.example/acme/widgets",
        "https://ada:sesame@forge.example/acme/widgets",
        "ssh://git:sesame@forge.example/acme/widgets",
        "ssh://-oProxyCommand=id/widgets",
        "git@forge.example:-oProxyCommand=id",
        "https:///widgets",
        "https://forge.example/",
        "https://forge.example/acme/../other/widgets",
        "https://forge.example/acme/%2e%2E/other/widgets",
        "https://forge.example/acme/%00",
        "https://forge.example//widgets",
        "https://forge.example/acme/widgets?token=sesame",
        "https://forge.example/acme/widgets#sesame",
        "https://forge.example/acme/wid gets",
        "https://forge.example/acme\\widgets",
        "https://forge.example/acme/wid\ngets",
        "https://forge.example/acme/\u202ewidgets",
        "https://forge.example/" + "x" * 1000,
        "file://forge.example/widgets",
        "/srv/../etc",
    ],
)
def test_anything_else_is_refused_and_no_password_is_shown(address: str) -> None:
    with pytest.raises(FleetError) as refused:
        normalised(address, ALL)
    assert refused.value.code == "PB-FLEET-REPOSITORY"
    assert "sesame" not in refused.value.message
    assert refused.value.message.isprintable()


def test_a_file_is_refused_unless_the_worker_allows_that_transport() -> None:
    for address in ("/srv/widgets.git", "file:///srv/widgets.git"):
        with pytest.raises(FleetError, match="file is not allowed here, but: https, ssh"):
            normalised(address)
    with pytest.raises(FleetError, match="ssh is not allowed here, but: https"):
        normalised("git@forge.example:widgets", ("https", "ext"))


def test_each_address_has_a_folder_of_its_own() -> None:
    addresses = [
        "https://forge.example/acme/widgets",
        "https://forge.example/acme/widgets.git",
        "https://forge.example/other/widgets",
        "git@forge.example:..-",
    ]
    names = [mirror_name(address) for address in addresses]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*\.git", name) for name in names)
    assert [repository_name(each) for each in addresses] == ["widgets"] * 3 + ["repository"]


PIECES = ("https", "ssh", "file", "git@", "a.b", ":", "/", "//", "..", "%2e", "-", "@", "x", "\n")


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_what_is_accepted_stays_as_it_is_and_holds_no_way_out(address: str) -> None:
    try:
        written = normalised(address, ALL)
    except FleetError:
        return
    assert normalised(written, ALL) == written
    assert not written.startswith("-")
    assert not {"..", "%2e", ""} & set(written.partition("://")[2].split("/")[1:])
