"""The rules of an audit by family, and what they find in the collection of journals."""

from __future__ import annotations

from collections.abc import Iterator

from collected_journals import NOW, WHOLE, broken, problems, whole
from tables import code, table

from playbook_supervisor.audit.examination import AuditReport, examine
from playbook_supervisor.audit.rules import FAMILIES


def rules() -> str:
    """Every rule; a star marks those that apply to this program's own journals only."""
    parts = []
    for title, family in FAMILIES.items():
        rows = (
            (f"`{code}`{' *' if rule.ours else ''}", rule.says, rule.guidance)
            for code, rule in family.items()
        )
        parts.append(f"**{title}**\n\n{table(('rule', 'finding', 'guidance'), rows)}")
    return "\n".join(parts)


def journals() -> str:
    """Every session of the collection, with the rules that it breaks and how many findings."""
    return table(("session", "description", "rules", "findings"), _rows())


def _rows() -> Iterator[tuple[str, str, str, str]]:
    for name, what in WHOLE.items():
        yield f"`{name}`", what, *_found(whole(name))
    for each in broken():
        yield f"`broken/{each.name}`", each.why, *_found(examine(each.record, NOW))


def _found(audited: AuditReport) -> tuple[str, str]:
    codes = [problem.code for _, problem in problems(audited)]
    return code(sorted(set(codes))) or "none", str(len(codes))
