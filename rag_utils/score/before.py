"""Commands for what comes before a run: the chapters, the profiles and a try of one, a plan, the book built from what is recorded."""

import sys
import time
from dataclasses import dataclass
from typing import Annotated

import typer

from rag_utils.engine import profiles
from rag_utils.page import chapters, parameters
from rag_utils.score.cli import app, assignment

ASKED = "Question: What is the capital of France?\nAnswer:"


@app.command()
def build(
    jobs: Annotated[int | None, typer.Option(help="Chapters at once; by default what cores and memory allow.")] = None,
) -> None:
    """Execute every chapter that changed since it was last executed here."""
    from rag_utils.score import building

    building.build(say=typer.echo, jobs=jobs)


@app.command()
def plan(
    chapter: Annotated[str, typer.Argument(help="A chapter, such as 01_data_and_models.")],
    profile: Annotated[str | None, typer.Option(help="The chapter's parameter `profile`.")] = None,
    parameter: Annotated[list[str], typer.Option("-p", "--parameter", help="NAME=VALUE; may be repeated.")] = (),
    mode: Annotated[str, typer.Option(help="live counts what is not recorded yet, fresh everything, empty each call once.")] = "live",
) -> None:
    """What a run of a chapter will ask and take here: calls, tokens, minutes, memory, disk. Its models are tried, nothing is kept."""
    from rag_utils.score import foreseen

    given = dict(assignment(text) for text in parameter) | ({} if profile is None else {"profile": profile})
    typer.echo(str(foreseen.plan(chapter, given, mode=mode)))


@app.command(name="list")
def list_chapters() -> None:
    """The chapters and their parameters."""
    for chapter in chapters.names():
        typer.echo(chapter)
        may = chapters.ranges(chapter)
        for name, default in chapters.parameters(chapter).items():
            typer.echo(f"  -p {name}={default!r}  {parameters.said(may.get(name, {}))}".rstrip())


@app.command(name="profiles")
def list_profiles(
    check: Annotated[str | None, typer.Option(help="Load this profile and answer one call: seconds, memory, fingerprint.")] = None,
) -> None:
    """The profiles, yours last: which models they name and what they need."""
    if check is not None:
        typer.echo(str(tried(check)))
        return
    for profile in (profiles.PROFILES | profiles.own()).values():
        precision = "a server" if profile.server else profile.dtype
        typer.echo(f"{profile.name:12} {profile.reader or profile.server} ({precision}): {profile.needs}")


@dataclass(frozen=True)
class Tried:
    """What a profile did when it was loaded and asked once."""

    name: str
    model: str
    fingerprint: str
    loading: float  # seconds
    asking: float  # seconds
    reply: str
    gigabytes: float  # of this process, the most so far
    on_the_card: float | None  # gigabytes of the GPU; None where there is none
    judge: str | None  # that the profile names, loaded and asked too

    def __str__(self) -> str:
        card = "" if self.on_the_card is None else f", {self.on_the_card:.1f} GB of the GPU"
        judge = f"\njudge {self.judge}: answers" if self.judge else ""
        return (
            f"{self.name}: {self.model}\nloaded in {self.loading:.1f} s, one reply in {self.asking:.1f} s: {self.reply!r}\n"
            f"{self.gigabytes:.1f} GB of memory{card}\nfingerprint {self.fingerprint}{judge}"
        )


def tried(name: str) -> Tried:
    """Load the reader of a profile, and judge and encoder where it names one, and ask each once; nothing is read from recordings.

    name   : as for `readers.load_reader`
    raises : ValueError for an unknown name, or a wrong file of profiles; WeightsError if a model cannot be had
    """
    from rag_utils.judge import load_judge
    from rag_utils.retrieve import encoder
    from rag_utils.score.readers import load_reader

    began = time.perf_counter()
    reader = load_reader(name, mode="fresh")
    getattr(reader, "model", None)  # which is read at its first use
    loaded = time.perf_counter()
    [[reply]] = reader.generate([ASKED], max_new_tokens=8)
    asked = time.perf_counter()
    profile = None if "://" in name else profiles.get(name)
    if profile is not None and profile.judge:
        load_judge(profile).equivalent(["What is the capital of France?"], ["Paris"], ["It is Paris."])
    if profile is not None and profile.encoder:
        encoder(profile)([ASKED])
    return Tried(
        name, reader.name, reader.fingerprint, loaded - began, asked - loaded, reply.text.strip(),
        most_memory(), on_the_card(), profile and profile.judge,
    )  # fmt: skip


def judge_of(reader: str) -> str:
    """The profile whose judge a run with this reader uses: its own where a profile of the user's names one, else the quick one."""
    own = profiles.own().get(reader)
    return reader if own is not None and own.judge else "quick"


def most_memory() -> float:
    """Gigabytes that this process had at most so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


def on_the_card() -> float | None:
    """Gigabytes of the GPU that this process had at most so far; None without a GPU."""
    import torch

    return torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else None
