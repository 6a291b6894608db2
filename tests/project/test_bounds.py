"""What a project lets its steps run, call and reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook_supervisor.errors import PolicyError
from playbook_supervisor.project.settings.bounds import admit_host, admit_program, admit_tool
from playbook_supervisor.project.settings.config import Bounds, Config


def config(
    *, allow: dict[str, list[str]] | None = None, deny: dict[str, list[str]] | None = None
) -> Config:
    return Config(
        allow=Bounds(**{kind: tuple(each) for kind, each in (allow or {}).items()}),
        deny=Bounds(**{kind: tuple(each) for kind, each in (deny or {}).items()}),
    )


def denied(settings: Config, *argv: str, cwd: Path = Path("/")) -> str:
    with pytest.raises(PolicyError) as caught:
        admit_program(settings, argv, cwd)
    assert caught.value.code == "PB-POLICY-DENIED"
    assert "config.yaml" in caught.value.guidance
    return caught.value.message


@pytest.mark.parametrize("program", ["make", "/usr/bin/env", "./scripts/check", "no-such-program"])
def test_without_any_setting_every_program_but_a_shell_passes(program: str) -> None:
    admit_program(Config(), [program, "-c", "sh"][: 1 + (program == "make")], Path("/"))


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "true"],
        ["/bin/bash", "-c", "true"],
        ["ksh93"],
        ["cmd"],
        ["env", "-i", "A=1", "/bin/sh"],
        ["env", "-S", "sh -c true"],
        ["env", "-Ssh -c true"],
        ["env", "--split=sh -c true"],
        ["busybox", "sh"],
        ["nohup", "nice", "-n", "10", "sh"],
        ["env", "-S-i sh"],
        ["setarch", "x86_64", "sh"],
        ["find", ".", "-exec", "sh", "-c", "true", ";"],
    ],
    ids=" ".join,
)
def test_a_shell_is_refused_however_it_is_started(argv: list[str]) -> None:
    """cat PL-7; tyr 13."""
    assert "it is a shell" in denied(Config(), *argv)
    everything_else = config(allow={"cli": ["make", "env", "busybox", "timeout", "nohup"]})
    assert "may not run" in denied(everything_else, *argv)


def test_a_link_to_a_shell_is_a_shell_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "make").symlink_to("/bin/sh")
    assert "it is a shell" in denied(Config(), "./make", cwd=tmp_path)
    assert "it is a shell" in denied(config(allow={"cli": ["make"]}), "./make", cwd=tmp_path)


def test_a_shell_that_allow_names_passes() -> None:
    """cat PL-7."""
    settings = config(allow={"cli": ["sh", "env"]})
    admit_program(settings, ["sh", "-c", "true"], Path("/"))
    admit_program(settings, ["env", "sh", "-c", "true"], Path("/"))
    assert "bash" in denied(settings, "env", "bash")


def test_with_allow_only_what_it_names_passes(tmp_path: Path) -> None:
    settings = config(allow={"cli": ["make", "npm*", "scripts/*", "/opt/tools/*"]})
    for program in ("make", "npm", "npmx", "./scripts/check", "/opt/tools/lint"):
        admit_program(settings, [program], tmp_path)
    assert "does not name it" in denied(settings, "curl", cwd=tmp_path)
    assert "does not name it" in denied(settings, "scripts/../evil", cwd=tmp_path)
    assert "does not name it" in denied(config(allow={"cli": []}), "make", cwd=tmp_path)


def test_deny_wins_over_allow_by_name_by_path_and_behind_a_launcher() -> None:
    """tyr 27."""
    settings = config(allow={"cli": ["*"]}, deny={"cli": ["curl", "/usr/bin/en*"]})
    assert "forbids it" in denied(settings, "curl")
    assert "forbids it" in denied(settings, "/opt/bin/curl")
    assert "forbids it" in denied(settings, "nice", "curl")
    assert "forbids it" in denied(settings, "env")
    assert "forbids it" in denied(settings, "prlimit", "curl")
    admit_program(settings, ["echo", "curl"], Path("/"))


@pytest.mark.parametrize(
    "argv",
    [
        ["prlimit", "touch", "x"],
        ["capsh", "--", "-c", "touch x"],
        ["env", "-S-i touch x"],
        ["find", ".", "-exec", "touch", "x", ";"],
        ["script", "-c", "touch x", "out"],
        ["xargs", "touch"],
        ["python3", "-c", "pass"],
        ["./touches"],
        ["./cat", "x"],
    ],
    ids=" ".join,
)
def test_beside_deny_only_programs_pass_that_start_no_others(
    argv: list[str], tmp_path: Path
) -> None:
    """And those that `allow` names. The refusal says what to add."""
    with pytest.raises(PolicyError) as caught:
        admit_program(config(deny={"cli": ["touch"]}), argv, tmp_path)
    name = Path(argv[0]).name
    assert "it may start other programs" in caught.value.message
    assert f"`allow: {{cli: [{name}]}}`" in caught.value.guidance
    allowed = config(allow={"cli": [name]}, deny={"cli": ["rm"]})
    admit_program(allowed, argv, tmp_path)
    admit_program(config(deny={"cli": []}), argv, tmp_path)


def test_a_word_that_is_no_program_here_is_no_shell(tmp_path: Path) -> None:
    """A folder called `cmd`, for instance, as projects in Go have it."""
    (tmp_path / "cmd").mkdir()
    for word in ("./cmd", "cmd", "nu"):
        admit_program(Config(), ["go", "build", word], tmp_path)


def test_what_the_settings_name_themselves_may_start_others(tmp_path: Path) -> None:
    """But neither a shell nor what they deny."""
    settings = config(deny={"cli": ["touch"]})
    admit_program(settings, ["pytest", "-q"], tmp_path, by="settings")
    for argv in (["env", "touch", "x"], ["env", "sh"]):
        with pytest.raises(PolicyError):
            admit_program(settings, argv, tmp_path, by="settings")


def test_hosts_are_compared_without_case_and_with_their_port() -> None:
    settings = config(
        allow={"http": ["*.example.com", "localhost:8080"]}, deny={"http": ["Evil.*"]}
    )
    admit_host(settings, "api.Example.com.")
    admit_host(settings, "localhost", 8080)
    for host, port in (("localhost", 80), ("example.com", None), ("evil.example.com", None)):
        with pytest.raises(PolicyError, match="may not send a request to"):
            admit_host(settings, host, port)
    admit_host(Config(), "anywhere.example")


def test_tools_are_compared_with_their_server() -> None:
    settings = config(allow={"mcp": ["github.*"]}, deny={"mcp": ["*.delete_*"]})
    admit_tool(settings, "github", "get_issue")
    for server, tool in (("jira", "get_issue"), ("github", "delete_repository")):
        with pytest.raises(PolicyError, match="may not call"):
            admit_tool(settings, server, tool)
