"""Which executor carries out a namespace: ours, an installed package's, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from playbook_supervisor.errors import CheckError
from playbook_supervisor.executors import registry
from playbook_supervisor.executors.cli import CliExecutor
from playbook_supervisor.project.expressions import namespaces

PLUGIN = """\
class Shout:
    namespace = "shout"
    with_schema = {"type": "object"}
    def execute(self, task, context):
        raise RuntimeError
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package on the path that offers an executor through the entry-point group."""

    def package(name: str, value: str = "") -> None:
        site = tmp_path / f"site-{name}"
        metadata = site / f"{name}_steps-1.0.dist-info"
        metadata.mkdir(parents=True)
        (site / f"{name}_steps.py").write_text(PLUGIN)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-steps\n")
        (metadata / "entry_points.txt").write_text(
            f"[playbook_supervisor.executors]\n{name} = {value or f'{name}_steps:Shout'}\n"
        )
        monkeypatch.syspath_prepend(str(site))

    return package


def refused(namespace: str) -> CheckError:
    with pytest.raises(CheckError) as caught:
        registry.find(namespace)
    assert caught.value.code == "PB-CHECK-NAMESPACE"
    assert caught.value.guidance
    return caught.value


@pytest.mark.parametrize("namespace", registry.BUILT_IN)
def test_ours_are_named_by_the_registry(namespace: str) -> None:
    """cat FR-3.4."""
    executor = registry.find(namespace)
    assert executor.namespace == namespace
    assert executor.with_schema["type"] == "object"


def test_a_package_s_executor_is_found_by_its_entry_point(install: Install) -> None:
    """cat FR-4.10, NFR-6.1."""
    install("shout")
    assert registry.find("shout").namespace == "shout"


def test_a_package_cannot_replace_ours(install: Install) -> None:
    install("cli", "cli_steps:Shout")
    assert isinstance(registry.find("cli"), CliExecutor)


def test_an_unknown_namespace_is_refused_with_the_nearest() -> None:
    """cat PL-3."""
    error = refused("clj")
    assert error.message == "there is no kind of step 'clj'; did you mean cli?"
    assert "cli" in error.details


@pytest.mark.parametrize("namespace", namespaces.RESERVED)
def test_a_reserved_namespace_needs_a_package(namespace: str, install: Install) -> None:
    """tyr 16, 18; own L-8."""
    assert refused(namespace).message == f"no installed package carries out `{namespace}` steps"
    install(namespace, f"{namespace}_steps:Shout")
    assert registry.find(namespace)


@pytest.mark.parametrize("value", ["no_such_module:Shout"])
def test_a_package_that_cannot_be_loaded_is_named(install: Install, value: str) -> None:
    install("shout", value)
    error = refused("shout")
    assert f"of {value} cannot be loaded: " in error.message
    assert error.cause
    assert error.cause in error.message
