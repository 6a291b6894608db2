"""Lets mkdocs make pages of documents that are written for the forge, without a copy of them.

The documents of the repository's top folder become pages. A link from one document to another leads
to its page, and a link to anything else in the repository to the forge.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
TOP = {
    "README.md": "index.md",
    "docs/README.md": "documents.md",  # mkdocs would take it for the first page
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "templates/playbook-authoring.md": "playbook-authoring.md",
}
"""The page of each document that is not at its place in docs/."""
_FENCE = re.compile(r"^( *```\w+) .+$", re.MULTILINE)
_LINK = re.compile(r"(\]\(|<img src=\")(?!\w+:|#)([^)\s\"#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder."""
    for document, page in TOP.items():
        for replaced in {document.removeprefix("docs/"), page}:
            if (file := files.get_file_from_path(replaced)) is not None:
                files.remove(file)
        text = (ROOT / document).read_text("utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text with links that work on the site."""
    here = page.file.src_uri
    origins = {uri: document for document, uri in TOP.items()}
    folder = posixpath.dirname(origins.get(here, f"docs/{here}"))

    def led(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[2]))
        if not (ROOT / target).exists():  # an example of a link
            return found[0]
        uri = TOP.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
        if uri and files.get_file_from_path(uri):
            return found[1] + os.path.relpath(uri, posixpath.dirname(here) or ".")
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{found[1]}{config.repo_url}/{kind}/main/{target}"

    plain = re.sub(_FENCE, r"\1", markdown)  # the words after a language are for the tests
    return re.sub(_LINK, led, plain)
