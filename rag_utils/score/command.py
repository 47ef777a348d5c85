"""The command `rag-companion score`: one's own retrieval run, measured, compared and reported; it joins the commands of `cli`."""

import inspect
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from rag_utils.score import before
from rag_utils.score.cli import app, main

__all__ = ["before", "main"]
DIGITS = 3
SHOWN = 5  # questions that changed most


@dataclass(frozen=True)
class Options:
    """What the command takes."""

    run: Annotated[Path | None, typer.Argument(help="JSON lines, a TREC run, ragas or Ragnarök records.")] = None
    questions: Annotated[Path | None, typer.Option(help="BEIR's queries.jsonl, with a list `answers` in each line.")] = None
    passages: Annotated[Path | None, typer.Option(help="BEIR's corpus.jsonl, for a TREC run.")] = None
    measures: Annotated[str, typer.Option(help="Of seper, seper-hard, seper-shares, erag, dense, ecorag, moi.")] = "seper,erag"
    reader: Annotated[str, typer.Option(help="A profile, a folder of weights, or the address of a server.")] = "embedded"
    adapter: Annotated[Path | None, typer.Option(help="A folder with a LoRA adapter for the reader's weights.")] = None
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None
    closed_prompt: Annotated[str, typer.Option(help="A prompt's name or file: without passages.")] = "closed_plain"
    read_prompt: Annotated[str, typer.Option(help="A prompt's name or file: with passages.")] = "read_plain"
    against: Annotated[Path | None, typer.Option(help="A second run on the same questions, or the folder of one.")] = None
    top: Annotated[int, typer.Option(help="How many passages of each question to look at.")] = 10
    seed: Annotated[int, typer.Option(help="Of the samples and of the orders.")] = 0
    workers: Annotated[int, typer.Option(help="Processes that compute, each with the model; more than 1 by Ray.")] = 1
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out instead of stopping.")] = False
    plan: Annotated[bool, typer.Option("--plan", help="Print calls, tokens, minutes and memory; measure nothing.")] = False
    judge_check: Annotated[Path | None, typer.Option(help="Your labels: question, answers, response, right.")] = None
    out: Annotated[Path | None, typer.Option(help="The folder for tables and report; by default RUN_scores.")] = None

    def read(self, run: Path) -> list:
        """The records of a run; what is left out is said."""
        from rag_utils.score.formats import BadInput, gather

        records, problems = gather(run, questions=self.questions, passages=self.passages)
        if problems and not (self.skip_bad and records):
            raise BadInput(problems, good=len(records))
        if problems:
            _say(f"{run}: {len(problems)} found wrong and left out, {len(records)} questions stay")
        return records

    def asking(self, mode: str) -> dict:
        """What `scores.run` and `plan.plan` take besides the records."""
        from rag_utils.score.measured import Settings
        from rag_utils.score.readers import load_reader
        from rag_utils.score.scores import chosen

        measures = chosen([name.strip() for name in self.measures.split(",")])
        settings = Settings(closed=self.closed_prompt, read=self.read_prompt, judge=before.judge_of(self.reader), workers=self.workers)
        how = {"adapter": self.adapter and str(self.adapter), "dtype": self.dtype, "workers": self.workers}
        reader = load_reader(self.reader, mode=mode, **how)
        return {"reader": reader, "measures": measures, "top": self.top, "seed": self.seed, "settings": settings}


def score(**given) -> None:
    """Measure a retrieval run: what each passage adds to the reader's belief, labels, roles, evidence, order; tables and a report."""
    options = Options(**given)
    if options.run is None and options.judge_check is None:
        raise ValueError("wanted RUN, a file with what was retrieved, or --judge-check FILE")
    if options.judge_check is not None:
        _check_judge(options)
    if options.run is None:
        return
    records = options.read(options.run)
    _say(f"{len(records)} questions, {sum(len(record.passages[: options.top]) for record in records)} passages")
    if without := sum(not record.answers for record in records):
        need = "seper, erag and ecorag say nothing of them: give each a list `answers`, in the run or in --questions"
        _say(f"{without} of {len(records)} questions have no right answers; {need}")
    if options.plan and options.workers != 1:
        raise ValueError("a plan is tried in one process; leave --workers out")
    if options.plan:
        _print_plan(options, records)
        return
    _measure(options, records)


def _measure(options: Options, records: list) -> None:
    from rag_utils.score import report
    from rag_utils.score.paired import changed, compare
    from rag_utils.score.scores import run

    folder, other, asking = options.out or Path(f"{options.run.stem}_scores"), _other(options, records), options.asking("live")
    scores = run(records, mode="live", **asking)
    if (folder / "settings.json").exists():
        _say(f"{folder}: what was measured there before is replaced")
    scores.save(folder)
    (folder / "against.json").unlink(missing_ok=True)  # of a comparison that was there before
    typer.echo(_table(scores.summary()))
    if few := report.few(len(records)):
        _say(few)
    if other is not None:
        if isinstance(other, list):
            other = run(other, mode="live", **asking)
            other.save(folder / "against")
        differences = compare(scores, other)
        same_name = options.run.name == options.against.name
        names = [str(path) if same_name else path.name for path in (options.run, options.against)]
        typer.echo(f"\n{names[0]} minus {names[1]}")
        typer.echo(_table(differences))
        if differs := differences.attrs["differs"]:
            _say(f"the two runs were not measured alike: {', '.join(differs)}")
        changes = {name: changed(scores, other, name) for name in differences.index[differences["n"] > 0]}
        first = next((name for name in changes if name.startswith("SePer") and "list" in name), "right with list")
        if first in changes:
            typer.echo(f"\nquestions that changed most: {first}\n{_table(changes[first].head(SHOWN))}")
        report.write(scores, folder / "report.html", against=differences, other=names[1], changes=changes)
        _write(folder / "against.json", differences)
    typer.echo(f"\n{folder / 'report.html'}")


def _other(options: Options, records: list):
    """The run to compare with: Scores that were saved, records to be measured, or None; other questions are refused before all work."""
    from rag_utils.score.paired import asked, same_questions
    from rag_utils.score.scores import Scores

    if options.against is None:
        return None
    if options.against.is_dir():
        other = Scores.load(options.against)
        theirs = asked(other)
    else:
        other = options.read(options.against)
        theirs = {record.id: record.question for record in other}
    same_questions({record.id: record.question for record in records}, theirs)
    return other


def _print_plan(options: Options, records: list) -> None:
    from rag_utils.score.plan import plan

    other = _other(options, records)
    lists = [records, *([other] if isinstance(other, list) else [])]
    asking, minutes, gigabytes = options.asking("fresh"), 0.0, 0.0
    for each in lists:
        planned = plan(each, **asking)
        typer.echo(planned.calls.assign(minutes=planned.calls["minutes"].round(1)).to_string())
        minutes, gigabytes = minutes + planned.minutes, max(gigabytes, planned.gigabytes)
    typer.echo(f"about {minutes:.1f} minutes, {gigabytes:.1f} GB; replies that are recorded already cost nothing")


def _check_judge(options: Options) -> None:
    from rag_utils.judge import load_judge
    from rag_utils.score.trust import judge_check, read_labels

    table = judge_check(load_judge(before.judge_of(options.reader)), read_labels(options.judge_check, skip_bad=options.skip_bad))
    typer.echo(f"the judge on {options.judge_check.name}\n{_table(table)}\n")
    if options.out is not None:
        _write(options.out / "judge_check.json", table)


def _table(table) -> str:
    return table.map(_shown).to_string()


def _shown(value) -> str:
    """A number as a table prints it; nothing where it is missing."""
    return "" if value != value else f"{value:.{DIGITS}f}" if isinstance(value, float) else str(value)


def _write(path: Path, table) -> None:
    from rag_utils.base.cache import make_dir
    from rag_utils.base.sealed import replace
    from rag_utils.score.scores import by_name

    make_dir(path.parent)
    replace(path, by_name(table))


def _say(text: str) -> None:
    typer.echo(text, err=True)


# typer reads a signature, and a function with so many parameters would be hard to read
score.__signature__ = inspect.signature(Options)
score.__annotations__ = {each.name: each.type for each in fields(Options)}
app.command(name="score")(score)
