"""Scores: the chapters' functions, called directly, say the same; so do all formats; what cannot be said is empty, with a reason."""

import json

import ir_measures
import numpy as np
import pandas as pd
import pytest
import tiny_run
from tiny_run import Finder, Talker, questions
from tiny_samples import Shares

from rag_utils import ecorag, moi, prompts, retrieve, stats
from rag_utils.data import Passage
from rag_utils.measures import dense as asked_dense
from rag_utils.measures import ecorag as asked_ecorag
from rag_utils.measures import erag as asked_erag
from rag_utils.measures import moi as asked_moi
from rag_utils.measures import seper as asked_seper
from rag_utils.score import Record, Scores, Settings, read, run, scores
from rag_utils.score.measured import Once
from rag_utils.score.scores import MEASURES, OF_PASSAGES, OF_QUESTIONS, per_question, why

CLOSED, READ = prompts.load("closed_plain"), prompts.load("read_plain")
EVERY = ["seper", "seper-hard", "seper-shares", "erag", "dense", "ecorag", "moi"]


@pytest.fixture(autouse=True)
def others(monkeypatch):
    """A judge that counts letters, and somebody who says passages in another order."""
    monkeypatch.setattr(scores, "load_judge", lambda profile, **how: Shares())
    monkeypatch.setattr(scores, "load", lambda profile, **how: Talker())


@pytest.fixture(scope="module")
def whole():
    """All measures of the five questions, and the reader that was asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "load_judge", lambda profile, **how: Shares())
        patch.setattr(scores, "load", lambda profile, **how: Talker())
        reader = Finder()
        return run(tiny_run.records(), measures=EVERY, reader=reader), reader


def shown() -> dict[str, tuple[Passage, ...]]:
    return {record.id: record.shown(10) for record in tiny_run.records()}


def column(table: pd.DataFrame, name: str, keys=("question", "passage")) -> dict:
    return table.set_index([*keys])[name].to_dict()


# --- as the chapters have it -----------------------------------------------------------------------


def test_seper_is_chapter_2s(whole):
    contexts = {"closed book": None, "all": shown()}
    contexts |= {
        f"{place}": {q: own[place : place + 1] for q, own in shown().items() if own[place:]} for place in range(4)
    }
    asked = asked_seper.prompts_of(Finder(), questions(), contexts, closed=CLOSED, read=READ)
    drawn = asked_seper.draw(Finder(), asked, n=10, max_new_tokens=24, seed=0)
    table = asked_seper.changes(asked_seper.beliefs(Shares(), questions(), drawn)).set_index(["id", "condition"])
    names = {"seper": "seper_soft", "seper_hard": "seper_hard", "seper_shares": "soft_frequency"}
    for name, theirs in names.items():
        for row in whole[0].passages.itertuples():
            assert getattr(row, name) == table.loc[(row.question, str(row.rank - 1)), theirs]
        for row in whole[0].questions.itertuples():
            assert getattr(row, f"{name}_list") == table.loc[(row.id, "all"), theirs]
    assert whole[0].passages["seper"].abs().max() > 0.1 and not whole[0].passages["seper"].equals(
        whole[0].passages["seper_shares"]
    )


def test_erag_is_chapter_3s(whole):
    by_id = {passage.id: passage for own in shown().values() for passage in own}
    ranked = {name: {passage.id: -float(i) for i, passage in enumerate(own)} for name, own in shown().items()}
    table = asked_erag.ask(Finder(), questions(), {"run": ranked}, by_id, prompt=READ)
    assert column(whole[0].passages, "erag") == column(table, "erag_exact_match", ("id", "document"))
    assert {0.0, 1.0} == {*whole[0].passages["erag"]}
    metrics = asked_erag.per_question(table, "erag_exact_match", k=4).set_index("id")
    for row in whole[0].questions.to_dict("records"):
        for name in ("P", "RR", "nDCG", "AP", "Success"):
            mine = row[f"erag_{name}@k"] if f"erag_{name}@k" in row else row[f"erag_{name}"]
            assert mine == pytest.approx(metrics.loc[row["id"], name])
    lists = asked_erag.end_to_end(table, "exact_match", k=4).droplevel("condition")
    assert whole[0].questions.set_index("id")["right_with_list"].to_dict() == lists.to_dict()


def test_dense_is_chapter_4s_and_5s(whole):
    texts = list(dict.fromkeys(passage.text for own in shown().values() for passage in own))
    words = dict(zip(texts, asked_dense.rephrase(Talker(), texts, prompts.load("dense_rephrase.chat")), strict=True))
    same = dict(zip(texts, asked_dense.faithful(Shares(), texts, [*words.values()]), strict=True))
    other = asked_dense.accepted(words, same)
    one = np.ones((4, 1))
    supplies = [asked_dense.Supply(q, shown()[q.id], embeddings=one[: len(shown()[q.id])]) for q in questions()]
    settings = asked_dense.Settings(read=READ, closed=CLOSED, sufficient=READ)
    tables = asked_dense.ask_with(questions(), Finder(), Shares(), settings, other=other)
    only = {
        "once": {"enough": None, "threshold": 0.0, "refill": "none"}
    }  # no entropy is below 0, so all roles are looked for
    firsts = {
        name: outcome.refinement.rounds[0] for (name, _), outcome in asked_dense.refined(supplies, only, tables).items()
    }
    drawn = {
        q.id: own
        for q, own in zip(
            questions(), asked_dense.replies_under_edits(Finder(), supplies, other, prompt=READ), strict=True
        )
    }
    table, roles = whole[0].questions.set_index("id"), column(whole[0].passages, "dense_role")
    for name, first in firsts.items():
        assert table.loc[name, "dense_entropy"] == pytest.approx(first.entropy, abs=1e-12)
        assert table.loc[name, "dense_certain"] == float(first.entropy < 0.2)
        said = drawn[name]
        agreed = asked_dense.agreements(Shares().equivalent, questions(), {asked_dense.Case(name, "x"): said})
        values = asked_dense.measures(agreed[name, "x"], np.zeros(len(said)))
        assert table.loc[name, "dense_entropy"] == pytest.approx(values["dense"], abs=1e-12)
        for passage, role in zip(shown()[name], first.roles, strict=True):
            tried = other[passage.text] != passage.text
            assert roles[name, passage.id] == role if tried else pd.isna(roles[name, passage.id])
    assert {"certain"} < {*whole[0].passages["dense_role"].dropna()}
    left = whole[0].passages[whole[0].passages["dense_role"].isna()]
    assert len(left) and set(left["dense_why"]) == {"no other words that say the same"}


def test_ecorag_is_chapter_6s(whole):
    how = {"closed": CLOSED, "read": READ, "max_new_tokens": 24}
    mined = asked_ecorag.mine(Finder(), questions(), shown(), **how)
    best = {}
    for row in mined.itertuples():
        key = row.id, row.passage
        best[key] = min(best.get(key, "undefined"), row.label, key=ecorag.LABELS.index)
    assert column(whole[0].passages, "ecorag") == best and "strong" in best.values()
    assert column(whole[0].passages, "sentences") == mined.groupby(["id", "passage"]).size().to_dict()
    score = asked_ecorag.dot_products(retrieve.encoder(), asked_ecorag.load_head("evidentiality"))
    kept = asked_ecorag.adaptive(score, asked_ecorag.small_evaluator(score))(questions(), shown())
    said = asked_ecorag.answered(Finder(), questions(), {"kept": kept}, **how).set_index("id")
    table = whole[0].questions.set_index("id")
    assert table["right_compressed"].to_dict() == said["exact_match"].to_dict()
    assert table["tokens_compressed"].to_dict() == said["tokens"].to_dict()
    sums = whole[0].passages.groupby("question")["ecorag_kept"].sum()
    assert sums.to_dict() == {name: len(own) for name, own in kept.items()}
    reasons = whole[0].passages[whole[0].passages["ecorag_why"] != ""]
    assert (reasons["ecorag"] == "undefined").all()


def test_moi_is_chapter_7s(whole):
    for size in (3, 4):
        ids = [name for name, own in shown().items() if len(own) == size]
        asked = [question for question in questions() if question.id in ids]
        sets = asked_moi.propose(ids, size, {"pruned": 2}, drawn=12)
        table = asked_moi.saliencies(Finder(), asked, shown(), sets, prompt=READ)
        fits = asked_moi.fitted(table, "pruned", size=size).set_index("id")
        for name in ids:
            rows = whole[0].passages[whole[0].passages["question"] == name]
            assert set(rows["moi_identified"]) == {float(fits.loc[name, "identified"])}
            if not fits.loc[name, "identified"]:
                assert rows["moi"].isna().all() and set(rows["moi_why"]) == {"the orders settle no fit"}
                continue
            assert asked_moi.label(moi.rerank(rows["moi"])) == fits.loc[name, "order"]
            order = {"MoI": {name: [asked_moi.parse(fits.loc[name, "order"])]}}
            answered = asked_moi.answered(Finder(), [q for q in asked if q.id == name], shown(), order, prompt=READ)
            own = whole[0].questions.set_index("id").loc[name]
            assert [own["reordered"], own["right_reordered"]] == answered[["reply", "exact_match"]].iloc[0].tolist()
    assert whole[0].passages["moi"].notna().any()


def test_replies_are_the_readers(whole):
    reader, table = Finder(), whole[0].questions.set_index("id")
    for question in questions():
        texts = [passage.text for passage in shown()[question.id]]
        asked = [CLOSED.fill(question=question.text), READ.fill(question=question.text, documents=texts)]
        [before], [after] = reader.generate(asked)
        assert [before.text.strip(), after.text.strip()] == table.loc[question.id, ["before", "with_list"]].tolist()
        assert table.loc[question.id, "tokens"] == sum(len(text.split()) for text in texts)


# --- calls -----------------------------------------------------------------------------------------


def test_nothing_is_asked_twice_and_what_can_be_together_is(whole):
    made, reader = whole
    asked = [(n, temperature, prompt) for n, temperature, own in reader.asked for prompt in own]
    assert len(asked) == len(set(asked))
    greedy = [own for _, temperature, own in reader.asked if not temperature]
    first = set(greedy[0])
    singles = {READ.fill(question=q.text, documents=[p.text]) for q in questions() for p in shown()[q.id]}
    assert singles <= first and len([call for call in reader.asked if call[1]]) == 1
    counts = made.settings["asked"]
    assert counts["replies"] == sum(map(len, greedy)) and counts["likelihoods"] == len(set(reader.scored))
    assert counts["samples"] == sum(n * len(own) for n, temperature, own in reader.asked if temperature)


def test_fewer_measures_ask_less_and_say_the_same(whole):
    reader = Finder()
    few = run(tiny_run.records(), measures=["erag"], reader=reader)
    assert column(few.passages, "erag") == column(whole[0].passages, "erag")
    assert not reader.scored and all(not temperature for _, temperature, _ in reader.asked)
    assert sum(len(own) for _, _, own in reader.asked) == 5 * 2 + 4 * 4 + 3  # closed, list, each passage alone


def test_top_takes_the_first_passages():
    cut = run(tiny_run.records(), measures=["erag"], reader=Finder(), top=2)
    assert cut.settings["k"] == 2 and cut.passages.groupby("question").size().unique().tolist() == [2]
    lists = {record.id: record.passages[:2] for record in tiny_run.records()}
    again = run([Record(id=each.id, question=each.question, answers=each.answers, passages=lists[each.id]) for each in tiny_run.records()],
                measures=["erag"], reader=Finder())  # fmt: skip
    pd.testing.assert_frame_equal(cut.passages, again.passages)
    pd.testing.assert_frame_equal(cut.questions, again.questions)


# --- files -----------------------------------------------------------------------------------------


def test_json_lines_and_a_trec_run_give_equal_scores(tmp_path, whole):
    every = tiny_run.rows()
    own = tiny_run.lines(tmp_path / "run.jsonl", every)
    places = [(row["id"], each["id"], rank) for row in every for rank, each in enumerate(row["passages"], 1)]
    trec = tmp_path / "run.trec"
    trec.write_text("".join(f"{q} Q0 {p} {rank} {10 - rank} bm25\n" for q, p, rank in places))
    asked = [{"_id": row["id"], "text": row["question"], "golden_answers": row["answers"]} for row in every]
    queries = tiny_run.lines(tmp_path / "queries.jsonl", asked)
    pool = {each["id"]: each for row in every for each in row["passages"]}
    corpus = tiny_run.lines(
        tmp_path / "corpus.jsonl",
        [{"_id": name, "title": each["title"], "text": each["text"]} for name, each in pool.items()],
    )
    records = read(trec, questions=queries, passages=corpus)
    assert records == read(own)
    mine = run(records, measures=EVERY, reader=Finder())
    pd.testing.assert_frame_equal(mine.passages, whole[0].passages)
    pd.testing.assert_frame_equal(mine.questions, whole[0].questions)
    assert mine.settings == whole[0].settings


def test_two_runs_write_the_same_bytes_and_are_loaded_as_they_were(tmp_path, whole):
    whole[0].save(tmp_path / "a")
    run(tiny_run.records(), measures=EVERY, reader=Finder()).save(tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["erag.qrels", "passages.jsonl", "questions.jsonl", "report.html", "settings.json", "summary.json"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    again = Scores.load(tmp_path / "a")
    pd.testing.assert_frame_equal(again.passages, whole[0].passages)
    pd.testing.assert_frame_equal(again.questions, whole[0].questions)
    assert again.settings == whole[0].settings
    pd.testing.assert_frame_equal(again.summary(), whole[0].summary())
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["right before"].keys() == {"value", "low", "high", "n"}


def test_trec_eval_reads_the_labels(tmp_path, whole):
    whole[0].save(tmp_path)
    labels = ir_measures.read_trec_qrels(str(tmp_path / "erag.qrels"))
    ranked = {name: {p.id: -float(i) for i, p in enumerate(own)} for name, own in shown().items()}
    means = ir_measures.calc_aggregate([ir_measures.AP, ir_measures.P @ 4], list(labels), ranked)
    summary = whole[0].summary()["value"]
    assert means[ir_measures.AP] == pytest.approx(summary["eRAG AP"])
    assert means[ir_measures.P @ 4] == pytest.approx(summary["eRAG P@4"])


def test_what_is_damaged_or_missing_is_said(tmp_path, whole):
    with pytest.raises(ValueError, match=r"must hold what `save` wrote; .*No such file"):
        Scores.load(tmp_path)
    whole[0].save(tmp_path)
    (tmp_path / "questions.jsonl").write_text('{"id": "q1"}\n')
    with pytest.raises(ValueError, match=r"lack .*with_list"):
        Scores.load(tmp_path)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ValueError, match="must hold what `save` wrote"):
        Scores.load(tmp_path)


# --- means -----------------------------------------------------------------------------------------


def test_a_summary_is_of_questions_not_of_passages(whole):
    summary, table = whole[0].summary(), whole[0].passages
    own = table.groupby("question")["seper"].mean()
    assert summary.loc["SePer", "value"] == pytest.approx(own.mean())
    assert abs(table["seper"].mean() - own.mean()) > 1e-6  # the wrong mean: one question has fewer passages
    estimate = stats.mean_interval(per_question(whole[0])["SePer"])
    assert summary.loc["SePer"].tolist() == [estimate.value, estimate.low, estimate.high, 5]
    strong = table.assign(s=table["ecorag"] == "strong").groupby("question")["s"].mean().mean()
    assert summary.loc["ECoRAG strong", "value"] == pytest.approx(strong)
    assert {"eRAG P@4", "eRAG nDCG@4", "DENSE entropy", "MoI identified", "right reordered", "tokens"} <= {
        *summary.index
    }


# --- what cannot be said ---------------------------------------------------------------------------

BARE = Record(id="bare", question="what is it", answers=[], passages=[{"id": "p", "text": "A thing. It is red."}])


def test_what_cannot_be_said_is_empty_with_a_reason():
    one = tiny_run.records()[0]
    made = run([one, BARE], measures=EVERY, reader=Finder())
    passage, question = (table.iloc[-1] for table in (made.passages, made.questions))
    for measure in ("seper", "seper-hard", "seper-shares", "erag"):
        assert passage[why(measure)] == question[why(measure)] == "no answers given"
        assert pd.isna(passage[OF_PASSAGES[measure][0]]) and question[[*OF_QUESTIONS[measure]]].isna().all()
    assert passage["reply"] and question["before"] and question["with_list"]
    assert pd.isna(question["right_before"]) and pd.isna(question["right_compressed"]) and question["answers"] == ""
    assert pd.isna(passage["ecorag"]) and passage["ecorag_why"] == "no answers given" and passage["sentences"] == 2
    assert passage["moi_why"] == question["moi_why"] == "one passage" and pd.isna(passage["moi"])
    assert pd.isna(question["reordered"]) and passage["dense_role"] in ("certain", "necessary", "unnecessary")
    assert made.summary().loc["eRAG AP", "n"] == 1 and pd.isna(made.summary().loc["eRAG AP", "low"])
    assert not [name for name in made.passages if name.endswith("_why") and made.passages[name].isna().any()]


def test_a_run_without_any_answer_still_has_every_column(tmp_path):
    made = run([BARE, BARE.model_copy(update={"id": "two"})], measures=EVERY, reader=Finder())
    names = {name for measure in EVERY for name in (*OF_PASSAGES[measure], why(measure))}
    assert names < {*made.passages} and made.passages["seper"].isna().all()
    summary = made.save(tmp_path).joinpath("summary.json").read_text()
    assert json.loads(summary)["SePer"] == {"value": None, "low": None, "high": None, "n": 0}
    pd.testing.assert_frame_equal(Scores.load(tmp_path).passages, made.passages)


def test_bad_options_are_refused():
    good = {"records": tiny_run.records(), "reader": Finder()}
    for wrong, said in (
        ({"measures": ["seqer"]}, "unknown measure 'seqer'; did you mean 'seper'"),
        ({"measures": "seper"}, "measures must be a list"),
        ({"measures": []}, "at least 1"),
        ({"measures": ["erag", "erag"]}, "each come once"),
        ({"top": 0}, "top must be a whole number"),
        ({"seed": -1}, "seed must be"),
        ({"records": []}, "records must hold at least 1"),
        ({"records": [{"id": "a"}]}, r"Record only; got a mapping; score\.Record\.model_validate makes"),
        ({"settings": Settings(read="nothing")}, "unknown prompt"),
        ({"measures": ["moi"], "settings": Settings(read="read_question_first")}, "must have .documents before"),
    ):
        with pytest.raises(ValueError, match=said):
            run(**good | wrong)


def test_a_reader_that_gives_no_likelihoods_is_refused_by_name():
    class Server(Finder):
        scores_prompts = scores_replies = False

        def _reply(self, prompt, sample, seed):
            reply = super()._reply(prompt, sample, seed)
            return type("TextOnly", (), {"text": reply.text})()

    with pytest.raises(ValueError, match="moi needs log-likelihoods of prompts, which finder does not give"):
        run(tiny_run.records(), measures=["moi"], reader=Server())
    with pytest.raises(ValueError, match="seper, seper-hard need log-likelihoods of replies"):
        run(tiny_run.records(), measures=["seper", "seper-hard", "erag"], reader=Server())
    made = run(tiny_run.records(), measures=["seper-shares"], reader=Server())
    whole = run(tiny_run.records(), measures=["seper-shares"], reader=Finder())
    assert column(made.passages, "seper_shares") == column(whole.passages, "seper_shares")


def test_every_measure_has_its_columns():
    assert set(MEASURES) == set(OF_PASSAGES) == set(OF_QUESTIONS) == set(EVERY)


def test_once_asks_once():
    reader = Finder()
    once = Once(reader)
    first = once.generate(["a", "b", "a"], max_new_tokens=3)
    assert once.generate(["b"], max_new_tokens=3) == [first[1]] and once.name == "finder"
    once.generate(["b"], n=3, temperature=1.0, seed=1)
    once.generate(["b"], n=3, temperature=1.0, seed=2)
    assert [own for _, _, own in reader.asked] == [["a", "b"], ["b"], ["b"]]
    assert once.counted() == {"replies": 2, "samples": 6, "likelihoods": 0, "tokens": 4}


def test_samples_and_the_greedy_reply_are_asked_together():
    reader = Finder()
    once, how = Once(reader), {"n": 3, "max_new_tokens": 5, "seed": 1}
    once.read(["a", "b", "a"], **how)
    once.read(["b"], **how)
    assert reader.asked == [(3, 1.0, ["a", "b"]), (1, 0.0, ["a", "b"])]
    drawn, greedy = once.generate(["b"], temperature=1.0, **how), once.generate(["b"], max_new_tokens=5)
    assert len(reader.asked) == 2 and [len(own) for [own] in (drawn, greedy)] == [3, 1]
    assert once.counted() == {"replies": 2, "samples": 6, "likelihoods": 0, "tokens": 4}


def test_sepers_prompts_are_read_once_for_both_replies():
    reader = Finder()
    run(tiny_run.records(), measures=["seper", "erag"], reader=reader)
    [(_, _, drawn), (_, _, beside), *rest] = reader.asked
    assert drawn == beside and not rest  # closed, the list and each passage alone: nothing else is asked
