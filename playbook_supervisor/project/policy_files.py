"""`.playbooks/policies/`: what a team requires of every playbook.

Each file is one rule or a list of rules (kai P3-2). An unknown key is an error: otherwise a
misspelt rule would be silently ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from playbook_supervisor.formats.checked_mapping import Problems, Section, is_empty
from playbook_supervisor.formats.located import Data
from playbook_supervisor.formats.problems import Problem, refusal
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import MAX_BYTES, load
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, Condition
from playbook_supervisor.project import yaml_folder
from playbook_supervisor.project.requirement import PLAIN
from playbook_supervisor.project.session_policy import LADDER, Demand, Policy
from playbook_supervisor.records import Record
from playbook_supervisor.system.files import contained, read_bytes

FOLDER = ".playbooks/policies"
CODE = "PB-CHECK-POLICY"

_MATCHED = ("command", "step", "playbook")
_DEMANDED = ("autonomy", "postconditions", "answered_by")
_CURE = "`playbook schema policy` describes every key."
_LONGEST = 200  # characters of a pattern


class PolicyRule(Record):
    """What is required of the steps that match all patterns (globs).

    `line` is where the rule begins in the file `policy`.
    """

    policy: str
    line: int
    command: str = ""
    step: str = ""
    playbook: str = ""
    autonomy: Autonomy | None = None
    postconditions: tuple[Condition, ...] = ()
    answered_by: tuple[str, ...] = ()

    def matches(self, playbook: Playbook, step: Step) -> bool:
        """Whether the rule applies to this step.

        Case is ignored, and so is the spelling `/speckit.plan` or `/speckit-plan`: both mean one
        command.
        """
        return (
            _like(playbook.name, self.playbook)
            and _like(step.id, self.step)
            and (
                _like(step.command, self.command)
                or _like(step.command.replace(".", "-"), self.command.replace(".", "-"))
            )
        )


def _like(name: str, pattern: str) -> bool:
    return not pattern or fnmatchcase(name.casefold(), pattern.casefold())


def merged(rules: Sequence[PolicyRule], playbook: Playbook) -> Policy:
    """What the rules require of the steps of a playbook, in its order."""
    return Policy(
        tuple(
            Demand(step.id, rule.policy, rule.autonomy, rule.postconditions, rule.answered_by)
            for step in playbook.steps
            for rule in rules
            if rule.matches(playbook, step)
        )
    )


# ── the files ───────────────────────────────────────────────────────────────────────────────


def project_rules(root: Path) -> tuple[PolicyRule, ...]:
    """All rules of the project, by file and place; () if it has none.

    CheckError PB-CHECK-POLICY, or the YAML reader's, names the first problem of a file and lists
    all; StorageError if one cannot be read or is a link out of the repository.
    """
    rules: list[PolicyRule] = []
    for name in yaml_folder.names(contained(root, FOLDER)):
        source = f"{FOLDER}/{name}"
        found, problems = examine(read_bytes(contained(root, source), limit=MAX_BYTES), source)
        if problems:
            raise refusal(CODE, problems)
        rules += found
    return tuple(rules)


def examine(data: bytes, source: str) -> tuple[tuple[PolicyRule, ...], tuple[Problem, ...]]:
    """The rules of one file that could be read, and all problems. CheckError of the YAML reader."""
    document = load(data, source)
    problems = Problems(document, CODE, _CURE)
    top = document.data
    rules: list[PolicyRule] = []
    policy = first_line(Path(source).name)
    listed: Sequence[tuple[Data, tuple[int, ...]]] = [(top, ())]
    if isinstance(top, list):
        listed = [(item, (index,)) for index, item in enumerate(top)]
    if is_empty(top) or not listed:
        problems.add((), "the file has no rules", "Write one, or remove the file.")
        return (), problems.found()
    for item, path in listed:
        rule = Section(problems, item, path, ("match", *_DEMANDED))
        rules.append(_rule(rule, policy, document.position(path)[0], known=isinstance(item, dict)))
    return tuple(rules), problems.found()


def _rule(rule: Section, policy: str, line: int, *, known: bool) -> PolicyRule:
    match = rule.section("match", _MATCHED)
    command, step, playbook = (_pattern(match, key) for key in _MATCHED)
    if known and not match.keys:
        what = "names no steps" if "match" in rule.keys else "is missing"
        rule.report("match", what, f"Give {_listed(_MATCHED)}, as in `command: /feature.*`.")
    if command and command[0] not in "/*?[":
        match.report("command", "must begin with `/` or a wildcard", "For example `/feature.*`.")
    if rule.keys == {"match"}:
        rule.report("match", "requires nothing", f"Add {_listed(_DEMANDED)}.", at_key=True)
    return PolicyRule(
        policy,
        line,
        command,
        step,
        playbook,
        rule.maybe("autonomy", LADDER),
        rule.words("postconditions", PLAIN),
        _people(rule),
    )


def _pattern(match: Section, key: str) -> str:
    pattern = match.line(key, "")
    if len(pattern) > _LONGEST:
        match.report(key, f"has {len(pattern):,} characters", f"At most {_LONGEST} are allowed.")
    return pattern


def _people(rule: Section) -> tuple[str, ...]:
    patterns = rule.lines("answered_by")
    if patterns == ():
        rule.report("answered_by", "names no one", "Give e-mail addresses, or `*` for any person.")
    for pattern in patterns or ():
        if (pattern and "@" not in pattern and pattern != "*") or len(pattern) > _LONGEST:
            rule.report(
                "answered_by",
                f"`{first_line(pattern, 60)}` is not an e-mail address or a pattern of addresses",
                "For example `*@release.example.org`; `*` alone means any person.",
            )
    return patterns or ()


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
