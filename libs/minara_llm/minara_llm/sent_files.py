"""Images and documents in a request: which go whole, and which are only named."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from minara_core.messages import FileBlock
from minara_llm.model import FileContent
from minara_llm.prices import ModelFacts

PDF = "application/pdf"
TEXT = "text"
"""Stands for every type `text/…`."""

_IMAGES_FOR_ALL = frozenset({"jpeg", "png"})
"""What every server reads that reads images at all."""


class FileForm(StrEnum):
    IMAGE = "image"
    PDF = "pdf"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFiles:
    """What a model reads over one API: image types without `image/`, and PDF or TEXT."""

    images: frozenset[str] = frozenset()
    documents: frozenset[str] = frozenset()


NO_FILES = AcceptedFiles()


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file that goes whole. `media_type` has no parameters."""

    form: FileForm
    name: str
    media_type: str
    content: bytes

    @property
    def base64(self) -> str:
        return base64.b64encode(self.content).decode("ascii")

    @property
    def data_url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"


def accepted_files(
    facts: ModelFacts | None, documents: frozenset[str], *, takes_images: bool | None
) -> AcceptedFiles:
    """What the model of `facts` reads over an API that takes `documents`; `takes_images` of a
    person who knows better comes first. An unknown model reads no files."""
    images = facts.images if facts else frozenset[str]()
    if takes_images is not None:
        images = (images or _IMAGES_FOR_ALL) if takes_images else frozenset[str]()
    return AcceptedFiles(
        images=images, documents=documents if facts and facts.has_documents else frozenset[str]()
    )


def sent_file(
    block: FileBlock, files: Mapping[str, FileContent], accepted: AcceptedFiles
) -> SentFile | None:
    """The file as it is sent whole; None when it is only named."""
    file = files.get(block.file_key)
    if file is None or not file.content:
        return None
    media_type = file.media_type.partition(";")[0].strip().lower()
    form = _form(media_type, accepted)
    if form is None or (form is FileForm.TEXT and not file.content.strip()):
        return None
    name = file.name or block.file_key
    return SentFile(form=form, name=name, media_type=media_type, content=file.content)


def file_line(block: FileBlock) -> str:
    """The line of text that names a file which is not sent."""
    return f"[file {block.file_key}, {block.media_type}]"


def _form(media_type: str, accepted: AcceptedFiles) -> FileForm | None:
    family, _, kind = media_type.partition("/")
    if family == "image" and kind in accepted.images:
        return FileForm.IMAGE
    if media_type == PDF and PDF in accepted.documents:
        return FileForm.PDF
    if family == "text" and TEXT in accepted.documents:
        return FileForm.TEXT
    return None
