"""`inbox`: a page in the browser for all that waits, here and in other repositories."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.commands import locate, places
from playbook_supervisor.commands.places import PlaceReader
from playbook_supervisor.errors import ArgumentError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.inbox.commands import admission, register
from playbook_supervisor.inbox.commands.feed import Feed
from playbook_supervisor.inbox.commands.reminding import Reminders
from playbook_supervisor.inbox.web.access import Access, link
from playbook_supervisor.project.settings import config
from playbook_supervisor.system.process import ancestry

if TYPE_CHECKING:
    from playbook_supervisor.inbox.web.access import Access
    from playbook_supervisor.inbox.web.server import Listen

PORT = 7433


def _of_places(command: options.Command) -> options.Command:
    """`--fleet/--no-fleet`, and the like for every other place that is installed."""
    for name in places.names():
        said = f"Show the sessions of the {name}, too. Default: if one is set up."
        command = click.option(f"--{name}/--no-{name}", name, default=None, help=said)(command)
    return command


@options.group
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=PORT,
    help=f"Listen at this port; 0 takes a free one. Default: {PORT}.",
)
@click.option(
    "--bind",
    metavar="ADDRESS",
    default="127.0.0.1",
    help="Listen at this address of the machine. Default: 127.0.0.1.",
)
@click.option(
    "--url", metavar="URL", default="", help="The address that people use, if it is another."
)
@click.option(
    "--tls",
    nargs=2,
    metavar="CERT KEY",
    type=click.Path(dir_okay=False),
    default=None,
    help="Speak TLS with this certificate and key.",
)
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of it speaks TLS.")
@_of_places
@click.pass_context
def inbox(
    ctx: click.Context,
    /,
    *,
    port: int,
    bind: str,
    url: str,
    tls: tuple[str, str] | None,
    behind_proxy: bool,
    **shown: bool | None,
) -> int | None:
    """Decide in the browser, also on the phone, about all that waits.

    Prints a link for this machine. It shows the sessions of this repository, of those that you
    add, and of a fleet. Others can reach it only if they are invited, and by TLS.

    \b
    Examples:
      playbook inbox
      playbook inbox add ../another-project
      playbook inbox invite "Ada <ada@example.org>"
      playbook inbox --bind 192.0.2.7 --tls cert.pem key.pem
    """
    if ctx.invoked_subcommand is not None:
        return None
    from playbook_supervisor.inbox.web import server  # slow to import

    files = (Path(tls[0]), Path(tls[1])) if tls else None
    wanted = server.Listen(bind, port, _origin(url), files, behind_proxy)
    return _serve(wanted, shown)


@options.command
@click.argument("path", type=click.Path(file_okay=False, path_type=Path))
def add(path: Path) -> int:
    """Show the sessions of another repository, too."""
    root = register.add(path)
    output.inform(f"added: {root}")
    return 0


@options.command
@click.argument("path", type=click.Path(path_type=Path))
def remove(path: Path) -> int:
    """Forget a repository."""
    if not register.remove(path):
        raise ArgumentError(
            "PB-ARG-INBOX",
            f"{path} is not among the repositories of the inbox",
            guidance="`playbook inbox list` shows them.",
        )
    output.inform(f"removed: {path}")
    return 0


@options.command
@click.argument("person", metavar='"NAME <MAIL>"')
@click.option("--url", metavar="URL", default="", help="The address of the inbox.")
def invite(person: str, *, url: str) -> int:
    """Print a link that makes a browser this person's.

    It works once, within three days. The journal keeps the name, and policies can name it.
    """
    _require_terminal("invite people")
    origin = _origin(url)
    if not origin:
        raise ArgumentError(
            "PB-ARG-INBOX",
            "where people reach the inbox is not known",
            guidance="Add --url https://…, or `inbox: {url: https://…}` to .playbooks/config.yaml.",
        )
    address = link(origin, register.invite(person, now()))
    output.write(address)
    _show_code(address)
    output.inform("It works once, within three days.")
    return 0


@options.command
@click.argument("person", metavar="NAME|MAIL")
def revoke(person: str) -> int:
    """End a person's access, with all browsers and links."""
    names = register.revoke(person)
    if not names:
        raise ArgumentError(
            "PB-ARG-INBOX",
            f"{first_line(person, 60)} is not invited",
            guidance="`playbook inbox list` shows who is.",
        )
    output.inform(*(f"revoked: {name}" for name in names))
    return 0


@options.command
def listing() -> int:
    """Show the repositories that were added, and who may come in."""
    known = register.load()
    output.write(*(f"repository  {root}" for root in known.repositories))
    for person in known.people:
        valid = [each for each in person.invitations if each.until > now()]
        facts = [f"{each.name} since {to_time(each.since)[:10]}" for each in person.browsers]
        facts += [f"{counted(len(valid), 'unused link')}"] if valid else []
        output.write(f"person      {person.name}: {', '.join(facts) or 'no browser'}")
    if not (known.repositories or known.people):
        output.inform("no repository was added, and no one is invited")
    return 0


for _command in (add, remove, invite, revoke):
    inbox.add_command(_command)
inbox.add_command(listing, "list")


def _serve(wanted: Listen, shown: Mapping[str, bool | None]) -> int:
    # slow to import
    from playbook_supervisor.inbox.web import server
    from playbook_supervisor.inbox.web.app import InboxApp

    here, people = _here(), register.load().people
    admission.require_owner(_roots(here), "run `playbook inbox`")
    server.require_safe(wanted, invited=bool(people))
    listening, site = server.bound(wanted)
    access = Access(site)

    def entered(name: str, browser: str) -> None:
        output.inform(f"{first_line(name) or 'you'} came in with {browser}")
        if not name:
            _offer(access)

    feed = Feed(lambda: _roots(here), dict(_readers(shown)))
    feed.poll()
    feed.poll_places()
    reminders = Reminders(feed)

    def look() -> None:
        reminders.send_due()
        for place in feed.places.values():
            place.sweep()

    pages = InboxApp(feed, access, proxied=wanted.proxied, entered=entered, on_look=look)
    for problem in feed.listing.problems:
        output.inform(f"note: {first_line(problem, 400)}")
    for person in people:
        browsers = counted(len(person.browsers), "browser")
        output.inform(f"may come in: {first_line(person.name)} ({browsers})")
    output.inform(f"the inbox is at {site.origin}; Ctrl-C ends it")
    _offer(access)
    try:
        server.serve(wanted, listening, pages)
    finally:
        for place in feed.places.values():
            place.close()
    return 0


def _readers(shown: Mapping[str, bool | None]) -> Iterator[tuple[str, PlaceReader]]:
    for name, place in places.offered().items():
        if shown[name] or (shown[name] is None and place.is_set_up()):
            yield name, place.reader()


def _roots(here: Path | None) -> list[Path]:
    return [*([here] if here is not None else []), *register.load().repositories]


def _offer(access: Access) -> None:
    """Print a link for the user of this machine, where only a person reads it."""
    if not sys.stdout.isatty():
        output.inform("note: no link is printed, because stdout is no terminal; invite people")
        return
    address = access.new_link()
    output.write(f"open it with this link, which works once: {address}")
    if access.site.secure:  # others than this machine can open it
        _show_code(address)
    sys.stdout.flush()


def _show_code(address: str) -> None:
    import segno  # slow to import

    segno.make(address, micro=False).terminal(sys.stdout, compact=True, border=2)


def _origin(url: str) -> str:
    """The address that was given, else the one in the settings of this repository."""
    from playbook_supervisor.inbox.web.server import require_origin  # slow to import

    if url:
        return require_origin(url)
    here = _here()
    return config.load(here).inbox.url if here is not None else ""


def _here() -> Path | None:
    try:
        return locate.store().checkout.root
    except PlaybookError:
        return None


def _require_terminal(what: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY for an agent, and where no person can see a link."""
    admission.require_owner(_roots(_here()), what)
    if not ancestry.has_terminal():
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"only a human may {what}, and there is no terminal of a human here",
            guidance="Type it in a terminal of your own.",
        )
