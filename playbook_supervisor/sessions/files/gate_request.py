"""What a gate keeps of an agent's request: the shape is checked when a journal is read.

A journal may come from another person's branch, so its requests are data of strangers.
"""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.formats.fields import Fields, UnfitError

_TEXTS = (
    "who",
    "tool",
    "subject",
    "input",
    "description",
    "path",
    "rule",
    "agent",
    "conversation",
    "digest",
)


def request_of(fields: Fields) -> dict[str, object]:
    """The request of a gate, empty if it has none; keys that are not ours are left out.

    UnfitError names what does not fit.
    """
    request = Fields(fields.mapping("request"))
    try:
        texts = {key: text for key in _TEXTS if (text := request.text(key))}
        asked = [_question(each) for each in request.each("questions")]
    except UnfitError as unfit:
        raise UnfitError("request", f"in it, {unfit}") from None
    return {**texts, **({"questions": asked} if asked else {})}


def _question(fields: Fields) -> Mapping[str, object]:
    header, multiple = fields.text("header"), fields.flag("multiple")
    options = [_option(each) for each in fields.each("options")]
    return {
        "question": fields.required("question"),
        **({"header": header} if header else {}),
        **({"options": options} if options else {}),
        **({"multiple": True} if multiple else {}),
    }


def _option(fields: Fields) -> Mapping[str, str]:
    said = fields.text("description")
    return {"label": fields.required("label"), **({"description": said} if said else {})}
