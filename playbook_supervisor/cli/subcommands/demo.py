"""`demo`: a complete run in a scratch repository, with a scripted agent."""

from __future__ import annotations

from collections.abc import Callable

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.drive import observing, shows_list, steps_table
from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.prompt import Prompt
from playbook_supervisor.commands import demo as demonstration
from playbook_supervisor.commands.driving import driving, protocol
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers.observers import PromptAnswer
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.store.snapshot import Snapshot


@options.command
def demo() -> int:
    """Watch a complete run in a scratch repository.

    It uses a scripted agent and changes nothing of yours. Without a terminal it answers its gate
    itself. The repository remains for you to explore.

    \b
    Examples:
      playbook demo
    """
    level = options.level()
    made = demonstration.set_up()
    command = f"playbook run {made.playbook} {' '.join(made.args)}"
    output.inform(f"In {made.root}, with a scripted agent:\n$ {command}")
    prompter = Prompt(shows_list(level)) if output.is_interactive() else _ScriptedPrompter()
    drive = DriveOptions(agent=made.agent)
    with observing(level) as observer:
        result = driving.run(
            made.playbook,
            made.args,
            cwd=made.root,
            drive=drive,
            observer=observer,
            prompter=prompter,
        )
    attempts = protocol.tree_entries(result.snapshot)
    output.inform(text.summary(result.snapshot, [*attempts.values()], result.why))
    if not shows_list(level):
        output.inform(*steps_table(attempts))
    (journal,) = (made.root / ".playbooks/sessions").glob("*/journal.yaml")
    output.write(f"\n$ cat {journal.relative_to(made.root)}")
    output.write(printable(journal.read_text("utf-8"), keep_newlines=True).rstrip("\n"))
    output.write("\n$ git log --oneline", *demonstration.log(made.root))
    output.inform(f"\nThe repository remains in {made.root}; try `playbook show` there.")
    return result.exit_code


class _ScriptedPrompter:
    def ask(
        self, snapshot: Snapshot, context: GateContext | None, overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        del overtaken
        answer = text.asked(snapshot).choices[0].value
        output.inform(*(f"  {line}" for line in gate_text.lines(context)))
        output.inform(f"There is no terminal to ask at: the demo answers `{answer}` itself.")
        return PromptAnswer(answer)

    def not_understood(self, snapshot: Snapshot, question: str) -> None:
        """The first choice is always understood."""
