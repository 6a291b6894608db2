"""The register of the inbox: further repositories, and the people who were invited.

Of a link and of a browser it keeps a digest, so that what it keeps lets no one in.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.fields import JsonFields, UnfitError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.records import as_mapping, replace
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.git import checkout

FILE = "inbox.json"
VALID = 3 * 24 * 3_600_000
"""Milliseconds for which an invitation can be used."""

_PERSON = re.compile(r"[^<>\s][^<>]* <[^<>\s@]+@[^<>\s@]+>")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME = 200
_TOKEN_BYTES = 24


@dataclass(frozen=True, slots=True)
class Invitation:
    """A link that was not used yet. `until` in ms since the epoch."""

    digest: str
    until: int


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser that a person uses. `since` in ms since the epoch."""

    digest: str
    since: int
    name: str


@dataclass(frozen=True, slots=True)
class Person:
    """An invited person, by the `Name <mail>` that the journal keeps."""

    name: str
    invitations: tuple[Invitation, ...] = ()
    browsers: tuple[Browser, ...] = ()


@dataclass(frozen=True, slots=True)
class Register:
    """All that is remembered."""

    repositories: tuple[Path, ...] = ()
    people: tuple[Person, ...] = ()


def new_token() -> str:
    """192 random bits, as text for a link or a cookie."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def digest_of(token: str) -> str:
    """The digest that is kept of a token."""
    return sha256(token.encode()).hexdigest()


def load() -> Register:
    """The register. StateError PB-STATE-CORRUPT if the file is damaged."""
    return _read(user_state.load(FILE))


# ── repositories ────────────────────────────────────────────────────────────────────────────


def add(path: Path) -> Path:
    """Remember the repository that the folder belongs to, and return its main checkout."""
    root = checkout.find(path).main_root

    def edit(known: Register) -> Register:
        return replace(known, repositories=tuple(dict.fromkeys((*known.repositories, root))))

    _change(edit)
    return root


def remove(path: Path) -> bool:
    """Forget a repository, which may be gone; False if it was not remembered."""
    named = path.resolve()
    found = [root for root in load().repositories if named in (root, root.resolve())]

    def edit(known: Register) -> Register:
        left = tuple(root for root in known.repositories if root not in found)
        return replace(known, repositories=left)

    if found:
        _change(edit)
    return bool(found)


# ── people ──────────────────────────────────────────────────────────────────────────────────


def invite(name: str, now: int) -> str:
    """The token of a link that works once and makes a browser that person's, `Name <mail>`."""
    name = " ".join(name.split())
    if len(name) > _LONGEST_NAME or printable(name) != name or not _PERSON.fullmatch(name):
        raise ArgumentError(
            "PB-ARG-INVALID",
            f"{first_line(name, 60)!r} is not a person",
            guidance='Give the name and mail that the journal is to keep: "Ada <ada@example.org>".',
        )
    token = new_token()

    def edit(known: Register) -> Register:
        others = [each for each in known.people if each.name != name]
        person = next((each for each in known.people if each.name == name), Person(name))
        valid = (each for each in person.invitations if each.until > now)
        invitations = (*valid, Invitation(digest_of(token), now + VALID))
        return replace(known, people=(*others, replace(person, invitations=invitations)))

    _change(edit)
    return token


def revoke(name: str) -> tuple[str, ...]:
    """Forget the people of that name or mail; the names of those who were known."""
    wanted = " ".join(name.split()).casefold()

    def is_meant(person: Person) -> bool:
        called, _, mail = person.name.casefold().rstrip(">").partition(" <")
        return wanted in (person.name.casefold(), called, mail)

    found = tuple(each.name for each in load().people if is_meant(each))

    def edit(known: Register) -> Register:
        return replace(known, people=tuple(each for each in known.people if not is_meant(each)))

    if found:
        _change(edit)
    return found


def invited(known: Register, token: str, now: int) -> Person | None:
    """The person whose link has that token and can still be used."""
    return _holder(known, token, lambda person: [i for i in person.invitations if i.until > now])


def admit(token: str, browser: str, now: int) -> tuple[str, Person] | None:
    """Use up a link: the token of the new browser, and its person. None if it cannot be used."""
    admitted: list[Person] = []
    digest, new = digest_of(token), new_token()

    def edit(known: Register) -> Register:
        person = invited(known, token, now)
        if person is None:  # another browser was faster
            return known
        made = Browser(digest_of(new), now, first_line(browser, 80))
        left = tuple(each for each in person.invitations if each.digest != digest)
        admitted.append(replace(person, invitations=left, browsers=(*person.browsers, made)))
        others = (each for each in known.people if each.name != person.name)
        return replace(known, people=(*others, admitted[0]))

    if invited(load(), token, now) is not None:
        _change(edit)
    return (new, admitted[0]) if admitted else None


def person_of(known: Register, token: str) -> Person | None:
    """The person whose browser has that token."""
    return _holder(known, token, lambda person: person.browsers)


def _holder(
    known: Register, token: str, held: Callable[[Person], tuple[Browser, ...] | list[Invitation]]
) -> Person | None:
    """Every digest is compared, each in constant time."""
    digest, found = digest_of(token), None
    for person in known.people:
        for each in held(person):
            if compare_digest(each.digest, digest):
                found = person
    return found


# ── the file ────────────────────────────────────────────────────────────────────────────────


def _change(edit: Callable[[Register], Register]) -> None:
    user_state.change(FILE, lambda data: _written(edit(_read(data))))


def _written(known: Register) -> dict[str, object]:
    return {
        "repositories": [str(root) for root in known.repositories],
        "people": [
            {
                "name": person.name,
                "invitations": [as_mapping(each) for each in person.invitations],
                "browsers": [as_mapping(each) for each in person.browsers],
            }
            for person in known.people
        ],
    }


def _read(data: object) -> Register:
    try:
        fields = JsonFields(data if isinstance(data, Mapping) else {})
        return Register(
            tuple(Path(root) for root in fields.texts("repositories")),
            tuple(_person(each) for each in fields.each("people")),
        )
    except UnfitError as error:
        raise user_state.damaged(FILE, str(error)) from error


def _person(fields: JsonFields) -> Person:
    return Person(
        fields.required("name"),
        tuple(Invitation(_digest(each), each.time("until")) for each in fields.each("invitations")),
        tuple(
            Browser(_digest(each), each.time("since"), each.text("name"))
            for each in fields.each("browsers")
        ),
    )


def _digest(fields: JsonFields) -> str:
    if not _DIGEST.fullmatch(found := fields.required("digest")):
        raise UnfitError("digest", "must be 64 hexadecimal digits")
    return found
