"""`demo`: the main job in a scratch repository, with the embedded agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.prompt import Prompt
from playbook_supervisor.cli.watchers import draws, watching
from playbook_supervisor.commands import demo as demonstration
from playbook_supervisor.commands import driving, protocol
from playbook_supervisor.drivers.observers import PromptAnswer
from playbook_supervisor.formats.sanitize import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.cli.render.log import Level
    from playbook_supervisor.sessions.snapshot import Snapshot


def demo(*, level: Level) -> int:
    """Run it, then show the journal and the git log. The repository is left to be looked at."""
    made = demonstration.set_up()
    command = f"playbook run {made.playbook} {' '.join(made.args)}"
    streams.tell(f"In {made.root}, with an agent that follows a script:\n$ {command}")
    person = Prompt() if streams.at_a_terminal() else _Stagehand()
    drive = driving.DriveOptions(agent=made.agent)
    with watching(level, lambda seen: protocol.entries(seen, cwd=made.root)) as watcher:
        ending = driving.run(
            made.playbook, made.args, cwd=made.root, drive=drive, watcher=watcher, person=person
        )
    entries = protocol.entries(ending.snapshot, cwd=made.root)
    streams.tell(text.summary(ending.snapshot, entries, ending.why))
    for line in () if draws(level) else text.steps(entries):
        streams.tell(line)
    journal = _journal(made.root)
    streams.put(f"\n$ cat {journal.relative_to(made.root)}")
    streams.put(printable(journal.read_text("utf-8"), keep_newlines=True).rstrip("\n"))
    streams.put("\n$ git log --oneline")
    for line in demonstration.log(made.root):
        streams.put(line)
    streams.tell(f"\nIt is left in {made.root}; try `playbook show` there.")
    return ending.exit_code


def _journal(root: Path) -> Path:
    (journal,) = (root / ".playbooks/sessions").glob("*/journal.yaml")
    return journal


class _Stagehand:
    """Stands in for the person where there is no terminal, and says so."""

    def ask(
        self, outlook: Snapshot, context: tuple[str, ...], overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        """Show the gate as a person would see it, and answer with its first choice."""
        del overtaken
        answer = text.first_choice(outlook)
        for line in text.context(context):
            streams.tell(f"  {line}")
        streams.tell(f"There is no terminal to ask at: the demo itself answers `{answer}`.")
        return PromptAnswer(answer)

    def not_understood(self, outlook: Snapshot, question: str) -> None:
        """The first choice is always understood."""
