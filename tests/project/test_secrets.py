"""Secrets that a step names by handle."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.errors import StepError
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Arg, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.settings import secrets
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.project.settings.secrets import Secrets, forms
from playbook_supervisor.system.process.capture import redact

TOKEN = Arg("token", "For the forge", required=False, secret=True)
PRINTS = (sys.executable, "-c")


def step(**options: object) -> Step:
    text = json.dumps(options)
    return Step("post", "http GET /", Autonomy.AUTO, ErrorPolicy.STOP, options=text)


def looked_up(root: Path, config: Config | None = None, **given_args: str) -> Secrets:
    named = step(headers={"Authorization": "Bearer {{secret:API_TOKEN}}", "X-Token": "{{token}}"})
    return secrets.of_step(named, (TOKEN,), given_args, config or Config(), root)


def printing(program: str) -> Config:
    return Config(secrets={"API_TOKEN": (*PRINTS, program)})


def refused(root: Path, config: Config | None = None) -> StepError:
    with pytest.raises(StepError) as caught:
        looked_up(root, config)
    assert caught.value.code == "PB-STEP-SECRET"
    assert "hunter2" not in f"{caught.value.message} {caught.value.guidance} {caught.value.cause}"
    return caught.value


def test_a_handle_names_an_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2!")
    monkeypatch.setenv("GH_TOKEN", "other-value")
    assert looked_up(tmp_path).values == {"secret:API_TOKEN": "hunter2!", "token": ""}
    assert looked_up(tmp_path, token="GH_TOKEN").values["token"] == "other-value"
    assert secrets.known("API_TOKEN", Config())
    assert not secrets.known("NO_SUCH_TOKEN", Config())


def test_a_program_of_the_config_comes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "from the environment")
    config = printing("print('  hunter2!  ')")
    assert looked_up(tmp_path, config).values["secret:API_TOKEN"] == "hunter2!"
    assert secrets.known("API_TOKEN", config)


def test_a_program_of_the_config_runs_at_the_top_of_the_checkout(tmp_path: Path) -> None:
    found = looked_up(tmp_path, printing("import os; print(os.getcwd())"))
    assert found.values["secret:API_TOKEN"] == str(tmp_path)


def test_a_step_without_secrets_looks_nothing_up(tmp_path: Path) -> None:
    config = printing("raise SystemExit('must not run')")
    found = secrets.of_step(step(headers={"X": "{{feature}}"}), (TOKEN,), {}, config, tmp_path)
    assert found == Secrets()


def test_a_missing_secret_is_named_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("API_TOKEN", raising=False)
    error = refused(tmp_path)
    assert error.message == (
        "the secret API_TOKEN is not there: no such environment variable is set"
    )
    assert "`secrets`" in error.guidance


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; print('hunter2'); sys.exit('hunter2')", "ended with exit status 1"),
        ("pass", "its program prints nothing"),
        ("print('hunter2\\0x')", "NUL"),
        ("print('hunter2' * 100_000)", "more than 65536 bytes"),
    ],
)
def test_a_program_that_prints_no_usable_value_fails_without_showing_it(
    tmp_path: Path, program: str, said: str
) -> None:
    assert said in refused(tmp_path, printing(program)).message


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    config = Config(secrets={"API_TOKEN": ("no-such-program-here",)})
    assert "no-such-program-here" in refused(tmp_path, config).message


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_DEADLINE", 0.3)
    error = refused(tmp_path, printing("import time; time.sleep(60)"))
    assert "did not end" in error.message


def test_values_are_in_no_representation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2!")
    assert "hunter2" not in repr(looked_up(tmp_path))


@given(
    value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=8, max_size=40),
    before=st.binary(max_size=7),
    after=st.binary(max_size=7),
)
def test_a_secret_is_hidden_however_it_is_encoded(value: str, before: bytes, after: bytes) -> None:
    text = value.strip() or "whitespace"
    inner = text.encode()
    encoded = base64.b64encode(before + inner + after).decode()
    urlsafe = base64.urlsafe_b64encode(before + inner + after).decode()
    for printed in (text, json.dumps(text), quote(text, safe=""), quote_plus(text)):
        assert redact(f"<{printed}>", forms(text)) != f"<{printed}>"
    for printed in (encoded, urlsafe):
        assert redact(printed, forms(text)) != printed
