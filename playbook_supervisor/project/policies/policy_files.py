"""`.playbooks/policies/`: what a team requires of every playbook.

Each file is one rule or a list of rules. An unknown key is an error: otherwise a
misspelt rule would be silently ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.checked_mapping import Problems, Section, is_empty
from playbook_supervisor.formats.located import Data, Document
from playbook_supervisor.formats.located import Path as Place
from playbook_supervisor.formats.problems import Problem, problem_at, refusal
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import MAX_BYTES, load
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import GateReason
from playbook_supervisor.project.conditions.conditions import require_answerable
from playbook_supervisor.project.expressions.references import names
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import examine_conditions
from playbook_supervisor.project.policies.session_policy import LADDER, ROLE, Demand, Policy
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import contained, read_bytes

FOLDER = ".playbooks/policies"
CODE = "PB-CHECK-POLICY"

_MATCHED = ("command", "step", "playbook")
_CONDITIONS = "postconditions"
_DEMANDED = ("autonomy", _CONDITIONS, "answered_by", "forbid")
_CURE = "`playbook schema policy` describes every key."
_LONGEST = 200  # characters of a pattern
_CALLS = r"[A-Za-z_][A-Za-z0-9_-]*(?:\([^\n]{1,200}\))?"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A requirement for the steps that match all patterns (globs).

    `line` is where the rule begins in its file. `demand` lacks the step.
    """

    line: int
    demand: Demand
    command: str = ""
    step: str = ""
    playbook: str = ""

    def matches(self, playbook: Playbook, step: Step) -> bool:
        """True if the rule applies to this step.

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


def merged(
    rules: Sequence[PolicyRule], playbook: Playbook, children: Iterable[Playbook] = ()
) -> Policy:
    """The demands of the rules on the steps of a playbook and of its children, in their order."""
    named = [("", playbook), *((child.name, child) for child in children)]
    return Policy(
        tuple(
            replace(rule.demand, step=step.id, playbook=name)
            for name, each in named
            for step in each.steps
            for rule in rules
            if rule.matches(each, step)
        )
    )


# ── the files ───────────────────────────────────────────────────────────────────────────────


def in_force(
    root: Path, playbook: Playbook, settings: Config, children: Iterable[Playbook] = ()
) -> Policy | None:
    """The policy for a playbook and its children; None where the project has none.

    CheckError PB-CHECK-POLICY where one of them is not valid.
    """
    rules = project_rules(root, settings)
    return merged(rules, playbook, children) if rules else None


def project_rules(root: Path, config: Config | None) -> tuple[PolicyRule, ...]:
    """All rules of the project, by file and place; () if it has none.

    `config` are its settings, None if it is not known which checks they define.
    CheckError PB-CHECK-POLICY, or the YAML reader's, names the first problem of a file and lists
    all; StorageError if one cannot be read or is a link out of the repository.
    """
    rules: list[PolicyRule] = []
    for name in library.file_names_in(contained(root, FOLDER)):
        source = f"{FOLDER}/{name}"
        data = read_bytes(contained(root, source), limit=MAX_BYTES)
        found, problems = examine(data, source, config)
        if problems:
            raise refusal(CODE, problems)
        rules += found
    return tuple(rules)


def examine(
    data: bytes, source: str, config: Config | None
) -> tuple[tuple[PolicyRule, ...], tuple[Problem, ...]]:
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
    wrong: list[Problem] = []
    for item, path in listed:
        rule = Section(problems, item, path, ("match", *_DEMANDED, "reason"))
        read = _rule(rule, policy, document.position(path)[0], known=isinstance(item, dict))
        if isinstance(item, dict) and _CONDITIONS in item:
            at: Place = (*path, _CONDITIONS)
            conditions, flaws = examine_conditions(item[_CONDITIONS], document, at)
            flaws += tuple(_unanswerable(conditions, document, at, config))
            wrong += [replace(flaw, code=CODE) for flaw in flaws]
            wanted = tuple(dict.fromkeys(filter(None, conditions)))
            read = replace(read, demand=replace(read.demand, postconditions=wanted))
        rules.append(read)
    found = sorted((*problems.found(), *wrong), key=lambda each: each.position)
    return tuple(rules), tuple(found)


def _unanswerable(
    conditions: Sequence[str], document: Document, path: Place, config: Config | None
) -> Iterator[Problem]:
    for number, condition in enumerate(conditions):
        at = (*path, number)
        if referred := names(condition):
            message = f"`{{{{{first_line(referred[0], 60)}}}}}`: a policy has no args"
            guidance = "Write the value; playbooks without that arg have to meet the policy, too."
            yield problem_at(document, at, CODE, message, guidance)
        elif condition and config is not None:
            try:
                require_answerable([condition], config)
            except CheckError as error:
                yield problem_at(document, at, CODE, error.message, error.guidance)


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
    demand = Demand(
        "",
        policy,
        rule.maybe("autonomy", LADDER),
        answered_by=_people(rule),
        reason=_reason(rule),
        forbid=_forbidden(rule),
    )
    return PolicyRule(line, demand, command, step, playbook)


def _reason(rule: Section) -> GateReason | None:
    reason = rule.maybe("reason", tuple(GateReason))
    if "reason" in rule.keys and "answered_by" not in rule.keys:
        cure = "It says for which gates `answered_by` holds."
        rule.report("reason", "needs `answered_by` beside it", cure, at_key=True)
    return reason


def _forbidden(rule: Section) -> tuple[str, ...]:
    rules = rule.lines("forbid")
    if rules == ():
        rule.report("forbid", "forbids nothing", "Give rules for calls, as in `Bash(git push *)`.")
    for each in rules or ():
        if each and not re.fullmatch(_CALLS, each):
            rule.report(
                "forbid",
                f"`{first_line(each, 60)}` is no rule for a call",
                "Name a tool, or a part of what it can do: `WebFetch`, `Bash(git push *)`.",
            )
    return rules or ()


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
        if not (_is_pattern_of_people(pattern) and len(pattern) <= _LONGEST):
            rule.report(
                "answered_by",
                f"`{first_line(pattern, 60)}` is not an e-mail address or a pattern of addresses",
                "For example `*@release.example.org`; `*` alone means any person, and "
                "`role:release` a role of the fleet's database.",
            )
    return patterns or ()


def _is_pattern_of_people(pattern: str) -> bool:
    if pattern.startswith(ROLE):
        return pattern != ROLE
    return pattern in ("", "*") or "@" in pattern  # the list's reader reports an empty one


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
