"""One file that a person wrote as a playbook: what it says, or what is wrong with it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from playbook_supervisor.errors import CheckError, PlaybookError
from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.problems import Problem, problem_of
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.kernel.model import Arg, Playbook
from playbook_supervisor.project.playbooks.schema import examine_translation, required
from playbook_supervisor.project.playbooks.secret_detection import refused
from playbook_supervisor.project.playbooks.translation import Translation, translate
from playbook_supervisor.system.disk.files import contained, read_bytes


@dataclass(frozen=True)
class PlaybookFile:
    """A playbook, read and parsed once when needed; the file of a `text` is only in messages."""

    file: Path
    root: Path = field(repr=False)
    text: bytes | None = field(default=None, repr=False)

    @cached_property
    def data(self) -> bytes:
        """Its bytes. StorageError, also for a symbolic link out of the repository."""
        if self.text is not None:
            return self.text
        relative = os.path.relpath(self.file, self.root)
        return read_bytes(contained(self.root, relative), limit=MAX_BYTES)

    @cached_property
    def source(self) -> str:
        """The path in messages: from the root of the repository."""
        inside = self.file.is_relative_to(self.root)
        return str(self.file.relative_to(self.root) if inside else self.file)

    @cached_property
    def translation(self) -> Translation:
        """The playbook in our own format. CheckError or StorageError if it cannot be parsed."""
        return translate(self.data, self.source)

    @property
    def document(self) -> Document:
        """Its data in our format. CheckError or StorageError if it cannot be parsed."""
        return self.translation.document

    @cached_property
    def kept(self) -> bytes:
        """The text that a session keeps: YAML of our format. CheckError, StorageError."""
        if self.translation.kind:
            return self.translation.text.encode()
        if self.file.suffix != ".json":
            return self.data
        # JSON without tabs and escapes is YAML.
        data = json.loads(self.data.decode("utf-8-sig"))
        return json.dumps(data, indent=2, ensure_ascii=False).encode()

    @cached_property
    def examined(self) -> tuple[Playbook | None, tuple[Problem, ...]]:
        """The playbook (None if it is not valid), and all problems by place. StorageError.

        It is not valid either if it contains what looks like a secret, unless a comment allows it.
        """
        try:
            translation = self.translation
        except CheckError as error:
            return None, (problem_of(error, self.source),)
        playbook, problems = examine_translation(translation)
        secrets = refused(translation.document, self.data)
        found = sorted((*problems, *secrets), key=lambda each: each.position)
        return None if secrets else playbook, tuple(found)

    @property
    def playbook(self) -> Playbook:
        """The playbook. CheckError PB-CHECK-INVALID if it is not valid."""
        return required(*self.examined)

    @cached_property
    def problem(self) -> str:
        """Why it cannot run; empty if it can."""
        try:
            _, problems = self.examined
        except PlaybookError as error:
            return error.message
        errors = [problem for problem in problems if problem.severity == "error"]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"line {errors[0].line}: {errors[0].message}{more}" if errors else ""

    @cached_property
    def stated_name(self) -> str:
        """The name that the playbook gives itself, valid or not; empty if none can be read."""
        try:
            content = self.document.data
        except PlaybookError:
            return ""
        name = content.get("name") if isinstance(content, dict) else None
        return first_line(name) if isinstance(name, str) else ""

    @property
    def name(self) -> str:
        """The playbook's name; that of the file if the playbook states none."""
        return self.stated_name or self.file.stem

    @property
    def description(self) -> str:
        """One printable line; empty if the playbook is not valid."""
        return "" if self.problem else first_line(self.playbook.description)

    @property
    def steps(self) -> int:
        """The number of steps; 0 if the playbook is not valid."""
        return 0 if self.problem else len(self.playbook.steps)

    @property
    def args(self) -> tuple[Arg, ...]:
        """The args of the playbook; none if it is not valid."""
        return () if self.problem else self.playbook.args

    def may_state(self, name: str) -> bool:
        """False if the playbook surely has another name, which is cheaper than to parse it."""
        if self.file.suffix == ".md":
            return True
        try:
            return name.encode() in self.data or b"\\" in self.data or not self.data.isascii()
        except PlaybookError:
            return False


def of_text(root: Path, text: str) -> PlaybookFile:
    """A playbook that a program gave as text: JSON if it begins with a brace, else YAML."""
    name = "pipeline.json" if text.lstrip().startswith("{") else "pipeline.yaml"
    return PlaybookFile(root / name, root, text.encode())
