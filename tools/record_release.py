"""Writes down what each installed file is in this release, so that later ones know it for ours.

python tools/record_release.py            # once, when a release is made
python tools/record_release.py --check    # names the files that are not written down, exits with 1
"""

from __future__ import annotations

import sys

from playbook_supervisor.commands.install import shipped
from playbook_supervisor.project.install_record import fingerprint
from playbook_supervisor.system.disk import templates
from playbook_supervisor.system.disk.files import digest


def main(*, check: bool) -> int:
    """Add a line for each file whose content no release had; with `check` only name it."""
    known = shipped.released()
    missing = {
        path: content
        for path, content in shipped.files().items()
        if fingerprint(content) not in known.get(path, ())
    }
    if check:
        for path in missing:
            print(f"{path} is not written down: python tools/record_release.py")
        return 1 if missing else 0
    with (templates.folder() / shipped.RELEASES).open("a", encoding="utf-8") as table:
        table.writelines(f"{digest(content)}  {path}\n" for path, content in missing.items())
    return 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
