"""What a later step reads of a loop: the outputs of its items, in order.

`$build.json` is the list of their JSON, null for an item that was skipped or failed.
`$build.stdout` are the texts of those that are done.
"""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.kernel.model import base_of, item_id
from playbook_supervisor.kernel.state import Entry, last_entries
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.sessions import output_files
from playbook_supervisor.sessions.output_files import LoopData, LoopFile, StepData

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.session import OpenSession

MOST = 16_000_000
"""Bytes of the outputs of all items of a loop."""


def with_output(opened: OpenSession, output: StepData) -> LoopFile:
    """What is kept of the loop, with the output of one more item."""
    waiting = opened.unwritten.get(output.file)
    if isinstance(waiting, LoopFile):
        return waiting.with_output(output)
    written = output_files.kept_bytes(opened.folder, opened.runtime, output.step)
    return LoopFile(base_of(output.step), written).with_output(output)


def combined(found: LoopData | None, loop: str, entries: Sequence[Entry]) -> StepData | None:
    """The outputs of all items as one; None if the loop had none."""
    of_items = (entry for entry in entries if entry.items and base_of(entry.step_id) == loop)
    last = last_entries(of_items)
    if not last:
        return None
    items = found.items if found else {}
    outputs: list[StepData | None] = []
    for number in range(1, max(entry.items for entry in last.values()) + 1):
        entry, output = last.get(item_id(loop, number)), items.get(number)
        done = entry.id if entry and entry.status is EntryStatus.DONE else ""
        outputs.append(output if output and output.attempt == done else None)
    texts = [each.stdout for each in outputs if each and each.stdout is not None]
    return StepData(
        attempt=f"{loop}#1",
        stdout="\n".join(texts) if texts else None,
        has_json=any(each and each.has_json for each in outputs),
        json=[each.json if each else None for each in outputs],
    )
