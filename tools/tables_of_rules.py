"""The rules of an audit by family, each with its sentence and what to do."""

from __future__ import annotations

from tables import table

from playbook_supervisor.audit.rules import FAMILIES, OURS


def rules() -> str:
    """Every rule; a star marks those that are asked of this program's own journals only."""
    unknown = OURS - {code for family in FAMILIES.values() for code in family}
    if unknown:
        raise SystemExit(f"there are no rules {', '.join(sorted(unknown))}")
    parts = []
    for title, family in FAMILIES.items():
        rows = (
            (f"`{code}`{' *' if code in OURS else ''}", rule.says, rule.guidance)
            for code, rule in family.items()
        )
        parts.append(f"**{title}**\n\n{table(('rule', 'what is found', 'what to do'), rows)}")
    return "\n".join(parts)
