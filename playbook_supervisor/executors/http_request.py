"""The request that an `http` step asks for: method, address, headers, body, expected status.

A value that could change the request around it is refused. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from playbook_supervisor.errors import StepError
from playbook_supervisor.executors.protocol import Task
from playbook_supervisor.formats.sanitize import one_line, suggestion
from playbook_supervisor.kernel.vocabulary import OutputFormat
from playbook_supervisor.project.references import is_known
from playbook_supervisor.records import Record, field

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_STATUS = (
    {"type": "string", "pattern": r"^[1-5](?:[0-9]{2}|[xX]{2})$"},
    {"type": "integer", "minimum": 100, "maximum": 599},
)
_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # a token (RFC 9110)
_VALUE = r"[\x20-\x7e\t]*"
_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that decide where a request goes and where it ends."""

WITH_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "headers": {
            "type": "object",
            "propertyNames": {"pattern": f"^{_NAME}$"},
            "additionalProperties": {"type": "string"},
            "description": "Name → text, in which `{{secret:NAME}}` may stand.",
        },
        "json": {"description": "Sent as JSON."},
        "body": {
            "type": "string",
            "description": "Sent as it is; the step's stdin by default.",
        },
        "expect_status": {
            "anyOf": [
                *_STATUS,
                {"type": "array", "items": {"anyOf": [*_STATUS]}, "minItems": 1},
            ],
            "default": "2xx",
            "description": "A status, a class such as `4xx`, or a list of both.",
        },
    },
    "not": {"required": ["json", "body"]},
    "additionalProperties": False,
}


class Order(Record, kw_only=True):
    """A request as the step asks for it. `complete` if only a whole answer is of use."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = b""
    expected: tuple[str, ...]
    complete: bool

    def expects(self, status: int) -> bool:
        """Whether the step succeeds with this status."""
        return bool({str(status), f"{status // 100}xx"} & {*self.expected})


def parts(task: Task) -> tuple[str, str]:
    """The method and the URL; a method that refers to an arg stays so. StepError PB-STEP-INPUT."""
    if len(task.words) != 2:
        raise unusable(f"`http` takes a method and a URL, not {len(task.words)} words")
    method, url = task.words
    if is_known(method) and method.upper() not in METHODS:
        name = one_line(method, 40)
        raise unusable(f"there is no method {name!r}{suggestion(name, METHODS)}")
    return method.upper(), url


def ordered(task: Task) -> Order:
    """The task's request. StepError PB-STEP-INPUT."""
    method, url = parts(task)
    headers = [_header(name, value) for name, value in task.options.get("headers", {}).items()]
    body, kind = _body(task)
    if kind and "content-type" not in {name.lower() for name, _ in headers}:
        headers.append(("Content-Type", kind))
    expected = task.options.get("expect_status", "2xx")
    listed: Sequence[Any] = expected if isinstance(expected, list | tuple) else (expected,)
    return Order(
        method=method,
        url=url,
        headers=tuple(headers),
        body=body,
        expected=tuple(str(each).lower() for each in listed),
        complete=task.output is OutputFormat.JSON,
    )


def _header(name: str, value: str) -> tuple[str, str]:
    """The header, if it cannot change the request around it. Its value may be a secret."""
    if not re.fullmatch(_NAME, name):
        raise unusable(f"{one_line(name, 40)!r} is not the name of a header")
    if name.lower() in _OURS:
        raise unusable(f"the header {name} cannot be set; it follows from the request")
    if not re.fullmatch(_VALUE, value):
        raise unusable(f"the value of the header {name} is not one line of printable ASCII")
    return name, value.strip()


def _body(task: Task) -> tuple[bytes, str]:
    """What is sent, and its type: `json`, else `body`, else what the step reads as stdin."""
    given = {"json", "body"} & task.options.keys()
    if given and task.stdin:
        raise unusable(f"the step has both `stdin` and `with.{min(given)}` to send")
    if "json" in given:
        return json.dumps(task.options["json"]).encode(), "application/json"
    return task.options.get("body", task.stdin).encode("utf-8", "replace"), ""


def unusable(message: str) -> StepError:
    """PB-STEP-INPUT."""
    return StepError("PB-STEP-INPUT", message)
