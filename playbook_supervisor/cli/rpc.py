"""`rpc`: one request on stdin, one envelope on stdout."""

from __future__ import annotations

import sys

import click

from playbook_supervisor.cli import options


@options.command
def rpc() -> int:
    """Serve one request of a program: JSON in, JSON out.

    The request on stdin is one object. With `"action": "run"` it names a playbook or holds the text
    of one; with `"action": "resume"` it approves or denies what a token stands for. The answer on
    stdout says `ok`, `needs_approval` or `cancelled`, or has an `error`. The exit code is 0 for
    every answer. docs/rpc.md describes both.

    \b
    Examples:
      echo '{"action": "run", "pipeline": "auto-validate"}' | playbook rpc
      playbook rpc < request.json
    """
    from playbook_supervisor.cli.drive import drive_and_show  # help and completion need none
    from playbook_supervisor.cli.error_handler import of_the_machine, write_error
    from playbook_supervisor.commands import locate
    from playbook_supervisor.commands import rpc as requests
    from playbook_supervisor.commands.rpc_request import LARGEST, read_request
    from playbook_supervisor.errors import PlaybookError

    if sys.stdin.isatty():
        raise click.UsageError("the request is read from stdin, which is a terminal")
    try:
        request = read_request(sys.stdin.buffer.read(LARGEST + 1), locate.store().checkout.root)
        drive_and_show(
            lambda observer, _: requests.serve(request, observer),
            options.level(),
            json=True,
            asks=False,
        )
    except Exception as error:
        known = error if isinstance(error, PlaybookError) else of_the_machine(error)
        if known is None:
            raise
        write_error(known, envelope=True)
    return 0
