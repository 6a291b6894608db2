"""The project's settings: every key, every fault with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from playbook_supervisor.errors import CheckError, PlaybookError, StorageError
from playbook_supervisor.formats.strict_yaml import load as load_yaml
from playbook_supervisor.project.playbooks.schema import schema_text
from playbook_supervisor.project.settings.config import (
    FILE,
    AgentSettings,
    Bounds,
    CheckSpec,
    Claude,
    Config,
    Inbox,
    Isolation,
    load,
)

EVERYTHING = """\
agent: codex
agents:
  codex: {exec: [codex, exec, --full-auto, "-"]}
  my-agent_2:
    exec: ["./my agent"]
  own:
    acp: [own, --acp]
    mode: careful
    model: small
    allowed_tools: ["Bash(npm test *)"]
    wait_for_limit: true
  reviewer: {profile: gemini}
  claude:
    permission_mode: plan
    allowed_tools: ["Bash(make test)", Edit]
    wait_for_limit: true
secrets:
  DEPLOY_TOKEN: [pass, show, deploy]
commit_sessions: step
push_sessions: false
feedback: false
worktrees: ../trees/{repo}/{session}
artifacts: {specs: docs/specs/, agreements: ./agreements, qa: quality}
allow: {cli: [make, "py*"], http: ["*.example.org"]}
deny: {mcp: [github.delete_repo], cli: []}
checks:
  test: {run: [make, test], timeout_seconds: 90, env: {CI: "1"}}
  lint_2: {run: ["./lint all"], room: clean, tries: 2, also_here: true, network: none}
notify: [notify-send, playbook]
remind_after: 3600
inbox: {resume: true, url: "https://inbox.example.org:8443"}
orphans: wait
permissions: fail
patience: 600
fleet: postgresql://db.example.org/fleet?sslmode=require
isolation:
  mode: required
  network: proxy
  hosts: [pypi.org, "*.npmjs.org", "[::1]:8080"]
  write: [~/.npm]
  show: [$SSH_AUTH_SOCK]
  hide: [~/private]
"""


KEYS = """
agent agents secrets commit_sessions push_sessions feedback worktrees artifacts allow deny checks
notify remind_after inbox
orphans permissions patience fleet isolation
"""


def settings(root: Path, text: str | bytes) -> Config:
    file = root / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(root)


def faults(root: Path, text: str) -> list[str]:
    """`line:col: message` of every problem, with its guidance if it has its own."""
    with pytest.raises(CheckError) as caught:
        settings(root, text)
    error = caught.value
    first = error.message.removesuffix(f" (and {len(error.details) - 1} more)")
    assert error.code == "PB-CHECK-CONFIG"
    assert error.details[0].startswith(f"{error.where}: {first}. ")
    told = (line.removeprefix(f"{FILE}:") for line in error.details)
    return [line.removesuffix(". `playbook schema config` describes every key.") for line in told]


def test_without_a_file_the_defaults_apply(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config == Config()
    assert (config.specs, config.agreements, config.qa) == ("specs", ".agreements", ".qa")
    assert config.worktrees == "../{repo}-session-{session}"
    assert (config.commit_sessions, config.push_sessions) == ("publish", True)
    assert config.claude == Claude("acceptEdits", (), wait_for_limit=False)
    assert config.allow == config.deny == Bounds(None, None, None)


@pytest.mark.parametrize(
    "nothing", ["", "# nothing yet\n", "{}", "agents:\nallow:\nartifacts: ~\n"]
)
def test_an_empty_file_leaves_the_defaults(tmp_path: Path, nothing: str) -> None:
    assert settings(tmp_path, nothing) == Config()


def test_settings_in_a_yml_file_are_refused(tmp_path: Path) -> None:
    """Playbooks and policies may end in `.yml`."""
    misnamed = tmp_path / ".playbooks/config.yml"
    misnamed.parent.mkdir()
    misnamed.write_text("push_sessions: false\n")
    with pytest.raises(CheckError) as caught:
        load(tmp_path)
    assert (caught.value.code, caught.value.where) == ("PB-CHECK-CONFIG", ".playbooks/config.yml")
    assert FILE in caught.value.message


def test_every_setting_is_read(tmp_path: Path) -> None:
    assert settings(tmp_path, EVERYTHING) == Config(
        agent="codex",
        agents={
            "codex": AgentSettings(exec=("codex", "exec", "--full-auto", "-")),
            "my-agent_2": AgentSettings(exec=("./my agent",)),
            "own": AgentSettings(
                acp=("own", "--acp"),
                mode="careful",
                model="small",
                allowed_tools=("Bash(npm test *)",),
                wait_for_limit=True,
            ),
            "reviewer": AgentSettings(profile="gemini"),
        },
        claude=Claude("plan", ("Bash(make test)", "Edit"), wait_for_limit=True),
        secrets={"DEPLOY_TOKEN": ("pass", "show", "deploy")},
        commit_sessions="step",
        push_sessions=False,
        feedback=False,
        worktrees="../trees/{repo}/{session}",
        specs="docs/specs",
        agreements="agreements",
        qa="quality",
        allow=Bounds(cli=("make", "py*"), http=("*.example.org",), mcp=None),
        deny=Bounds(cli=(), http=None, mcp=("github.delete_repo",)),
        checks={
            "test": CheckSpec("test", ("make", "test"), 90, {"CI": "1"}),
            "lint_2": CheckSpec(
                "lint_2",
                ("./lint all",),
                1800,
                {},
                "clean",
                tries=2,
                also_here=True,
                network="none",
            ),
        },
        notify=("notify-send", "playbook"),
        remind_after=3600,
        inbox=Inbox(resume=True, url="https://inbox.example.org:8443"),
        orphans="wait",
        permissions="fail",
        patience=600,
        fleet="postgresql://db.example.org/fleet?sslmode=require",
        isolation=Isolation(
            "required",
            "proxy",
            ("pypi.org", "*.npmjs.org", "[::1]:8080"),
            ("~/.npm",),
            ("$SSH_AUTH_SOCK",),
            ("~/private",),
        ),
    )


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", "none"), ("isolation: auto", "auto"), ("isolation: {network: none}", "auto")],
)
def test_a_word_is_the_mode_of_isolation_and_a_section_means_auto(
    tmp_path: Path, text: str, mode: str
) -> None:
    assert settings(tmp_path, text).isolation.mode == mode


@pytest.mark.parametrize(
    "urls",
    [
        ["ntfy://push.example/topic"],
        ["ntfy://{{secret:NTFY_TOKEN}}@push.example/topic", "46elks://x/y", "slack://a/b/c#d"],
        ["mailtos://{{ secret: USER }}:{{secret:PASSWORD}}@example.org?to=a{b}@example.org"],
    ],
)
def test_notices_go_to_urls(tmp_path: Path, urls: list[str]) -> None:
    text = f"notify: {json.dumps(urls)}\n"
    config = settings(tmp_path, text)
    assert config.notifies_by_url
    assert config.notify == tuple(urls)
    assert schema_allows("config", text)


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8080", "https://inbox.example.org", "http://10.0.0.1", "http://[::1]:80"],
)
def test_the_inbox_has_an_address(tmp_path: Path, url: str) -> None:
    text = f'inbox: {{url: "{url}"}}\n'
    assert settings(tmp_path, text).inbox == Inbox(url=url)
    assert schema_allows("config", text)


NO_ADDRESS = "Write `postgresql://USER@HOST/DATABASE`, or `sqlite:///FILE` with an absolute path."
A_PASSWORD = "Remove it: set PLAYBOOK_FLEET where the fleet is used, or use ~/.pgpass."
FAULTY = [
    ("agnet: x", "1:1: agnet: unknown key. Did you mean `agent`?"),
    ("deny:\n  shell: []", "2:3: deny.shell: unknown key. Known keys: cli, http, mcp."),
    ("- a", "1:1: must be a mapping of keys to values"),
    ("agent:", "1:7: agent: is empty. Give it a value, or remove the key."),
    (r'agent: "a\x07"', "1:8: agent: must be one line without control characters"),
    ("notify:\n  - echo\n  - [x]", "3:5: notify: must be a string"),
    (
        "notify:\n  - ntfy://push.example/topic\n  - notify-send",
        "3:5: notify: is not a URL, but the first item is. List only URLs (`SCHEME://…`), or a "
        "program and its arguments, the program first.",
    ),
    (
        'notify: ["ntfy://{{token}}@push.example/topic"]',
        "1:10: notify: `{{token}}` is no secret. Write `{{secret:NAME}}`; nothing else may stand "
        "between double braces.",
    ),
    *(
        (
            f"remind_after: {wrong}",
            "1:15: remind_after: must be a number of seconds above 0, without quotes",
        )
        for wrong in ("0", '"60"', "often")
    ),
    ("inbox: {adress: x}", "1:9: inbox.adress: unknown key. Known keys: resume, url."),
    ("push_sessions: yes", "1:16: push_sessions: must be true or false, without quotes"),
    (
        "commit_sessions: publsh",
        "1:18: commit_sessions: must be one of publish, step, never. Did you mean `publish`?",
    ),
    (
        "agents: {claude: {permission_mode: bypassPermissions}}",
        "1:36: agents.claude.permission_mode: must be one of acceptEdits, default, plan, auto, "
        "dontAsk",
    ),
    (
        "agents: {mine: {}}",
        "1:10: agents.mine: needs `exec` or `acp`, a program and its arguments, or `profile`, a "
        "known agent. The known ones are codex, copilot, gemini, kimi, opencode, qwen, vibe.",
    ),
    (
        "agents: {mine: {exec: [x], acp: [x]}}",
        "1:28: agents.mine.acp: cannot stand beside `exec`",
    ),
    (
        "agents: {codex: {exec: []}}",
        "1:24: agents.codex.exec: is missing: a list, the program first, then its arguments",
    ),
    (
        "agents: {script: {exec: [x]}}",
        "1:10: agents.script: `script` is a built-in agent; choose another name",
    ),
    (
        "secrets: {A: []}",
        "1:14: secrets.A: is missing: a list, the program first, then its arguments",
    ),
    (
        "checks: {test: {}}",
        "1:16: checks.test.run: is missing: a list, the program first, then its arguments",
    ),
    *(
        (
            f"checks: {{test: {{run: [x], timeout_seconds: {wrong}}}}}",
            "1:44: checks.test.timeout_seconds: must be a number of seconds above 0, without "
            "quotes",
        )
        for wrong in ("0", "-1", '"60"', "true", "soon", "[1]")
    ),
    (
        "checks: {test: {run: [x], also_here: true}}",
        "1:38: checks.test.also_here: needs `room: clean`",
    ),
    (
        "checks: {test: {run: [x], env: {A-B: x}}}",
        "1:33: checks.test.env.A-B: is not an environment variable: letters, digits and _",
    ),
    (
        "worktrees: ../trees",
        "1:12: worktrees: must contain `{session}`, may contain `{repo}`, and no other braces",
    ),
    ("artifacts: {specs: /etc}", "1:20: artifacts.specs: must be a folder inside the repository"),
    (
        "fleet: mysql://db.example.org/fleet",
        f"1:8: fleet: is no address of a database. {NO_ADDRESS}",
    ),
    (
        "fleet: postgresql://me:dummy@db.example.org/fleet",
        f"1:8: fleet: must have no password, for this file is committed. {A_PASSWORD}",
    ),
    (
        "fleet: postgresql://db.example.org/fleet?sslmode=require&password=dummy",
        f"1:8: fleet: must have no password, for this file is committed. {A_PASSWORD}",
    ),
    ("artifacts: {qa: .}", "1:17: artifacts.qa: must be a folder inside the repository"),
    ("isolation: maybe", "1:12: isolation: must be one of none, auto, required"),
    ("isolation: {mode: 1}", "1:19: isolation.mode: must be one of none, auto, required"),
    (
        "isolation: {hosts: [https://pypi.org]}",
        "1:20: isolation.hosts: `https://pypi.org` is no `HOST`, `HOST:PORT` or `*.DOMAIN`",
    ),
]
BEYOND_A_SCHEMA = {
    "agents: {mine: {}}",
    "agents: {mine: {exec: [x], acp: [x]}}",
    "agents: {mine: {exec: [x], mode: y}}",
    r'agent: "a\x07"',
    'agent: " "',
    "checks: {test: {run: [x], also_here: true}}",
}


@pytest.mark.parametrize(("text", "told"), FAULTY)
def test_each_problem_is_reported_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    assert faults(tmp_path, text) == [told]


@pytest.mark.parametrize("text", [text for text, _ in FAULTY if text not in BEYOND_A_SCHEMA])
def test_the_schema_that_ships_for_editors_refuses_the_same(text: str) -> None:
    assert not schema_allows("config", text)


def test_the_schema_that_ships_for_editors_knows_every_key() -> None:
    assert schema_allows("config", f"schema: 1\n{EVERYTHING}")
    keys = json.loads(schema_text("config"))["properties"]
    assert list(keys) == ["schema", *(line.partition(":")[0] for line in KEYS.split())]


def schema_allows(name: str, text: str) -> bool:
    data = as_values(load_yaml(text.encode(), name).data)
    return not list(Draft7Validator(json.loads(schema_text(name))).iter_errors(data))


def as_values(data: Any) -> Any:
    """A document's data by YAML's core rules."""
    if isinstance(data, dict):
        return {key: as_values(each) for key, each in data.items()}
    if isinstance(data, list):
        return [as_values(each) for each in data]
    return getattr(data, "value", data)


def test_all_problems_are_reported_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "push_sessions: 1\nagent: ''\nworktrees: ''\nnotfy: []\n"
    assert [line.split(": ")[0] for line in faults(tmp_path, text)] == [
        "1:16",
        "2:8",
        "3:12",
        "4:1",
    ]
    with pytest.raises(CheckError, match=r"\(and 3 more\)") as caught:
        load(tmp_path)
    assert caught.value.guidance == f"`playbook check {FILE}` lists them all."


def test_invalid_yaml_is_reported_by_the_reader(tmp_path: Path) -> None:
    with pytest.raises(CheckError) as caught:
        settings(tmp_path, "agent: a\nagent: b\n")
    assert caught.value.code == "PB-CHECK-YAML"
    assert caught.value.where == f"{FILE}:2:1"


def test_a_file_linked_from_outside_the_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text("agent: x\n")
    root = tmp_path / "project"
    (root / ".playbooks").mkdir(parents=True)
    (root / FILE).symlink_to(tmp_path / "outside.yaml")
    with pytest.raises(StorageError) as caught:
        load(root)
    assert caught.value.code == "PB-IO-ESCAPE"


WORDS = st.sampled_from(
    [*'[]{}: \n,x"', "- ", "agent", "agents", "claude", "exec", "allow", "cli", "true", "secrets"]
)


@given(text=st.lists(WORDS, max_size=25).map("".join))
def test_any_text_is_settings_or_an_error_with_a_place(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "fuzzed-settings"
    fault = None
    try:
        settings(root, text)
    except PlaybookError as error:
        fault = error
    assert fault is None or fault.where.startswith(f"{FILE}:")
    assert fault is None or fault.code.startswith("PB-CHECK-")
