"""What helps a person to answer a gate, collected when the gate is shown (kai FR24)."""

from __future__ import annotations

from playbook_supervisor.errors import CODES
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.sessions.snapshot import Snapshot


def gate_context(snapshot: Snapshot, last_words: str = "") -> tuple[str, ...]:
    """The evidence, the agent's last line, and `git diff --stat` since the launch.

    `last_words` is that last line where the caller has it; else the journal's copy is used.
    Empty where no gate is open.
    """
    asked = snapshot.directive
    if not isinstance(asked, Ask):
        return ()
    from playbook_supervisor.system.git_process import diff_stat

    entry = snapshot.entry(asked.member)
    lines = [f"answered by: {people}" for people in snapshot.answered_by]
    lines += entry.evidence
    if said := last_words or entry.output:
        lines.append(f"the agent said: {said}")
    if entry.error_guidance not in ("", CODES.get(entry.error_code)):  # its own
        lines.append(f"to mend it: {entry.error_guidance}")
    if (launch := snapshot.launches.get(entry.id)) and launch.head:
        lines += diff_stat(snapshot.store.checkout.root, launch.head, since_ms=launch.at)
    return tuple(lines)
