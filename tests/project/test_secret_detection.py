"""Values in a playbook that look like secrets, and those that do not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.scratch_project import Project

# Written in two parts, so that no scanner takes this file for one with secrets.
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
AWS = "AKIA" + "IOSFODNN7EXAMPLQ"
OPAQUE = "8f14e45fceea167a5a36" + "dedd4bea2543"

PLAYBOOK = """\
name: deploy
description: Deploys
version: "1.1"
args:
  - {name: token, description: For the forge, required: true, secret: true}
steps:
  - id: one
    autonomy: auto
    error_policy: stop
"""
STEPS = [
    (
        "http GET https://x.example",
        f"{{headers: {{Authorization: Bearer {OPAQUE}}}}}",
        "Authorization",
    ),
    ("http GET https://x.example", f"{{headers: {{X-Api-Key: '{OPAQUE}'}}}}", "X-Api-Key"),
    ("http POST https://x.example", "{json: {password: correct-horse-battery}}", "password"),
    ("cli make", "{env: {API_KEY: hunter2hunter2}}", "API_KEY"),
    ("cli make", f"{{env: {{WHERE: '{AWS}'}}}}", "WHERE"),
    ("prompt", f"{{text: 'Use {GITHUB} for it.'}}", "text"),
    (f"cli deploy --token {OPAQUE}", "", "token"),
    (f"cli env DEPLOY_TOKEN={OPAQUE} make", "", "DEPLOY_TOKEN"),
    (f'cli curl -H "Authorization: Bearer {OPAQUE}" https://x.example', "", "Authorization"),
    ("cli curl https://me:pa55w0rd1@x.example/", "", "command"),
]
HONEST = [
    ("http GET https://x.example", '{headers: {Authorization: "Bearer {{secret:BUILDS}}"}}'),
    ("http GET https://x.example", '{headers: {X-Api-Key: "{{token}}"}}'),
    ("cli make", '{env: {API_KEY: "{{secret:API}}", TOKEN_FILE: /run/secrets/deploy_key_1.txt}}'),
    ("cli make", "{env: {COMMIT: 47f1edf0b2c3d4e5f60718293a4b5c6d7e8f9012}}"),
    ("prompt", "{text: 'Say how a password: is reset, and by which token or secret.'}"),
    ("cli login --password-stdin --max-tokens 500000", ""),
    ("cli curl https://x.example/013-playbook-create/api-key", ""),
    ("cli git push --force-with-lease origin 013-playbook-create", ""),
]


def step(command: str, options: str, comment: str = "") -> str:
    text = f"{PLAYBOOK}    command: '{command}'{comment}\n"
    return text + (f"    with: {options}{comment}\n" if options else "")


@pytest.mark.parametrize(("command", "options", "named"), STEPS)
def test_a_secret_is_refused_at_its_place_and_never_repeated(
    project: Project, command: str, options: str, named: str
) -> None:
    """tyr 28: by `check`, and before a run."""
    text = step(command, options)
    project.write(".playbooks/playbooks/deploy.yaml", text)
    checked = project.playbook("check", "deploy")
    line = len(text.splitlines())
    assert checked.code == 1
    assert f"deploy.yaml:{line}:" in checked.out
    assert f"error: the value of `{named}` looks like a secret (" in checked.out
    assert "Write `{{secret:NAME}}`" in checked.out
    ran = project.playbook("run", "deploy", "token=HOME")
    assert (ran.code, "looks like a secret" in ran.err, project.sessions) == (1, True, [])
    for secret in (OPAQUE, AWS, GITHUB, "hunter2", "pa55w0rd", "correct-horse"):
        assert secret not in checked.out + checked.err + ran.out + ran.err


@pytest.mark.parametrize(("command", "options"), HONEST)
def test_an_honest_value_is_left_alone(project: Project, command: str, options: str) -> None:
    project.write(".playbooks/playbooks/deploy.yaml", step(command, options))
    assert "looks like a secret" not in project.playbook("check", "deploy").out


def test_a_comment_allows_one_with_its_reason(project: Project) -> None:
    allowed = "  # playbook: allow PB-CHECK-SECRET because it is the example of the manual"
    text = step("cli make", "{env: {API_KEY: hunter2hunter2}}", allowed).replace(allowed, "", 1)
    project.write(".playbooks/playbooks/deploy.yaml", text)
    checked = project.playbook("check", "deploy", "--strict")
    assert "looks like a secret" not in checked.out
    assert "PB-CHECK-ALLOW" not in checked.out
    planned = project.playbook("run", "deploy", "token=HOME", "--dry-run")
    assert planned.code == 0, planned.err
    for broken in (allowed.partition(" because")[0], allowed.replace("SECRET", "RULE")):
        project.write(".playbooks/playbooks/deploy.yaml", text.replace(allowed, broken))
        assert project.playbook("check", "deploy").code == 1


def test_a_file_of_another_system_has_no_secrets_either(project: Project) -> None:
    text = f"name: inbox\nsteps:\n  - {{id: a, command: cli inbox --token {OPAQUE}}}\n"
    project.write(".playbooks/playbooks/inbox.yaml", text)
    checked = project.playbook("check", "inbox")
    assert (checked.code, "`token` looks like a secret" in checked.out) == (1, True)


def test_the_detector_is_loaded_only_for_what_could_be_a_secret() -> None:
    program = (
        "import sys\n"
        "from playbook_supervisor.formats.strict_yaml import load\n"
        "from playbook_supervisor.project.playbooks.secret_detection import found\n"
        "data = sys.stdin.buffer.read()\n"
        "print(len(found(load(data, 'deploy.yaml'))), 'detect_secrets' in sys.modules)"
    )
    for text, said in [
        (step(*HONEST[0]), "0 False"),
        (step("cli make", ""), "0 False"),
        (step("cli make", "{env: {API_KEY: hunter2hunter2}}"), "1 True"),
    ]:
        argv = [sys.executable, "-c", program]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == said
