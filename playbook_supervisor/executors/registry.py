"""The executors that there are: our own, and those of installed packages.

A package offers one through the entry points `playbook_supervisor.executors`: the name is the
namespace, and the value, when it is called, makes the executor.
"""

from __future__ import annotations

from pkgutil import resolve_name

from playbook_supervisor import plugins
from playbook_supervisor.errors import CheckError
from playbook_supervisor.executors.protocol import Executor
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.plugins import Offer
from playbook_supervisor.project.expressions import namespaces

BUILT_IN: dict[str, str] = {
    "branch": "playbook_supervisor.executors.branch:BranchExecutor",
    "cli": "playbook_supervisor.executors.cli:CliExecutor",
    "commit": "playbook_supervisor.executors.commit:CommitExecutor",
    "http": "playbook_supervisor.executors.http:HttpExecutor",
    "issue": "playbook_supervisor.executors.issue:IssueExecutor",
    "mcp": "playbook_supervisor.executors.mcp:McpExecutor",
    "pr": "playbook_supervisor.executors.pr:PullRequestExecutor",
}
"""Namespace → the class that carries out its steps, imported when it is used."""


def find(namespace: str) -> Executor:
    """The executor of this namespace; ours come first. CheckError PB-CHECK-NAMESPACE."""
    if namespace in BUILT_IN:
        ours: Executor = resolve_name(BUILT_IN[namespace])()
        return ours
    offered = plugins.offered(plugins.EXECUTORS)
    if namespace in offered:
        return _load(offered[namespace])
    name = first_line(namespace, 60)
    if namespace in namespaces.RESERVED:
        message = f"no installed package carries out `{name}` steps"
        guidance = f"Install a package that provides the executor `{name}`."
        raise CheckError("PB-CHECK-NAMESPACE", message, guidance=guidance)
    there = sorted({*BUILT_IN, *offered})
    raise CheckError(
        "PB-CHECK-NAMESPACE",
        f"there is no kind of step {name!r}{suggestion(namespace, there)}",
        details=tuple(there),
    )


def _load(offer: Offer) -> Executor:
    try:
        executor: Executor = offer.load()()
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        what = f"the executor {offer.name} of {offer.value} cannot be loaded"
        raise CheckError(
            "PB-CHECK-NAMESPACE",
            f"{what}: {first_line(cause, 200)}",
            cause=cause,
            guidance="Reinstall the package that provides it, or remove the step.",
        ) from error
    return executor
