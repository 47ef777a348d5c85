"""Prompts: text files with slots, in our own words.

A file in `data/prompts/` is a prompt with slots such as $question and $documents. A name that ends in `.chat` is a message to an
instruction-following model; any other is text to be continued. The papers' prompts (SePer D.5, DENSE B.1-B.4, ECoRAG Figs. 6, 7) are
here with their slots, constraints and order, not their wording; eRAG and MoI print none.
"""

import hashlib
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_utils.base import checks
from rag_utils.base.cache import ROOT

FOLDER = ROOT / "data" / "prompts"
EXTENSION = ".txt"


@dataclass(frozen=True)
class Prompt:
    """A prompt with slots. `digest` identifies its text in a result's provenance."""

    name: str
    template: str
    chat: bool

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.template.encode()).hexdigest()[:12]

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(string.Template(self.template).get_identifiers())

    def fill(self, *, documents: Sequence[str] | None = None, **slots: str) -> str:
        """The text with its slots filled; ValueError if a slot is left empty or a value has no slot.

        documents : best first; each becomes "Document: ..." on a line of its own. Their place is before the question, so that lists
                    of growing length share their beginning
        """
        if documents is not None:
            if isinstance(documents, str) or not documents:
                mend = "without documents take a prompt whose name begins with 'closed' or that has no slot for them"
                raise ValueError(f"documents must be a list of at least one string, got {documents!r:.20}; {mend}")
            documents = checks.texts("documents", documents)
            slots["documents"] = "\n".join(f"Document: {' '.join(document.split())}" for document in documents)
        if set(slots) != set(self.slots):
            raise ValueError(f"prompt {self.name!r} has the slots {sorted(self.slots)}, got values for {sorted(slots)}")
        return string.Template(self.template).substitute({name: checks.text(f"slot {name!r}", value) for name, value in slots.items()})


def names() -> list[str]:
    """The prompts that ship with the book."""
    return sorted(path.name.removesuffix(EXTENSION) for path in FOLDER.glob(f"*{EXTENSION}"))


def load(name: str | Path) -> Prompt:
    """The prompt of that name, or in a file of the same form (`mine.txt`, `mine.chat.txt`); ValueError if it is none."""
    path = Path(name)
    if path.suffix != EXTENSION:
        path = FOLDER / f"{checks.one_of('prompt', str(name), names())}{EXTENSION}"
    try:
        template = path.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the prompt file {path} cannot be read: {error}") from error
    parsed = string.Template(template)
    if not parsed.is_valid() or not parsed.get_identifiers():
        wrong = "has no slot such as $question, or a stray $ (write $$ for a dollar sign)"
        raise ValueError(f"the prompt file {path} {wrong}")
    plain = path.name.removesuffix(EXTENSION)
    return Prompt(plain, template, chat=plain.endswith(".chat"))


def prompt_text(reader, prompt: Prompt, question=None, documents: Sequence | None = None, **slots: str) -> str:
    """What a model is shown: the prompt with its slots filled, as a message in the model's chat form if the prompt asks for that.

    reader              : has `.chat(message)`, as `lm.LanguageModel` does
    question, documents : texts, or objects with `.text`, of which only that is shown; None where the prompt has no such slot
    raises              : ValueError as `Prompt.fill`, or if the model has no chat form
    """
    if question is not None:
        slots["question"] = getattr(question, "text", question)
    if documents is not None:
        documents = checks.listed("documents", documents, least=0)
        slots["documents"] = [getattr(document, "text", document) for document in documents]
    text = checks.kind("prompt", prompt, Prompt, "a Prompt, such as prompts.load gives").fill(**slots)
    return reader.chat(text) if prompt.chat else text
