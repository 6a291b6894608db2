"""The schema that editors are given, judged by a program that is not ours: check-jsonschema."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
SCHEMA = REPOSITORY / "playbook_supervisor/project/schemas/written/playbook.json"
SHIPPED = sorted(
    [
        *(REPOSITORY / "templates/playbooks").glob("*.yaml"),
        *(REPOSITORY / ".playbooks/playbooks").glob("*.yaml"),
        REPOSITORY / "templates/playbook.tpl.yaml",
    ]
)
EXAMPLES = [
    REPOSITORY / "tests/playbooks" / name
    for name in ("auto-feature.yaml", "minimal.json", "revue-de-site.yaml")
]
MODELINE = "# yaml-language-server: $schema=../playbook.schema.json\n"


def judged(*files: Path) -> tuple[int, str]:
    argv = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(SCHEMA)]
    done = subprocess.run(
        [*argv, "--color=never", *map(str, files)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_valid_playbooks_conform() -> None:
    code, said = judged(*SHIPPED, *EXAMPLES)
    assert code == 0, said


def test_broken_playbooks_do_not_and_each_fault_is_named(tmp_path: Path) -> None:
    good = (REPOSITORY / "templates/playbooks/auto-validate.yaml").read_text("utf-8")
    faults = {
        "key.yaml": ("command: /qa.plan", "comand: /qa.plan", "'comand' was unexpected"),
        "word.yaml": ("error_policy: stop", "error_policy: stopp", "'stopp' is not one of"),
        "form.yaml": ("command: /qa.plan", "command: /qa.plan now", "does not match"),
        "end.yaml": ("command: /qa.plan", 'command: "/qa.plan\\n"', "does not match"),
        "none.yaml": ("steps:", "steps: []\nmore:", "steps: []"),
    }
    files = []
    for name, (old, new, _) in faults.items():
        assert good.count(old) == 1, old
        files.append(tmp_path / name)
        files[-1].write_text(good.replace(old, new), "utf-8")
    code, said = judged(*files, REPOSITORY / "tests/playbooks/every-fault.yaml")
    assert code == 1
    for name, (_, _, complaint) in faults.items():
        assert any(name in line and complaint in line for line in said.splitlines()), said


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_every_shipped_playbook_names_the_schema(file: Path) -> None:
    assert file.read_text("utf-8").startswith(MODELINE)
