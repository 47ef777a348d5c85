"""Runs as files: four formats give the same records; what is wrong is named by file, line and field, all of it at once."""

import json

import pytest

from rag_utils.score import BadInput, Record, read
from rag_utils.score.records import checked

PASSAGES = [{"id": "p2", "title": "Salt", "text": "Salt is sold."}, {"id": "p1", "title": "", "text": "Iron rusts."}]
GOOD = {"id": "q1", "question": "what is sold", "answers": ["salt"], "passages": PASSAGES}
QUERIES = [{"_id": "q1", "text": "what is sold", "answers": ["salt"]}, {"_id": "q2", "text": "not asked"}]
CORPUS = [{"_id": each["id"], "title": each["title"], "text": each["text"]} for each in PASSAGES]
RUN = "q1 Q0 p2 1 2.5 mine\nq1 Q0 p1 2 1.5 mine\n"


def lines(*rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def put(tmp_path):
    def write(content, name="run"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def trec(put, run=RUN, queries=QUERIES, corpus=CORPUS):
    texts = [each if isinstance(each, str) else lines(*each) for each in (queries, corpus)]
    return {"run": put(run), "questions": put(texts[0], "queries.jsonl"), "passages": put(texts[1], "corpus.jsonl")}


# --- what is right ---------------------------------------------------------------------------------


def test_all_formats_say_the_same(put):
    [own] = read(put(lines(GOOD)))
    assert own == Record(**GOOD) and own.passages[0].title == "Salt"
    assert read(**trec(put)) == [own]
    candidates = [
        {"docid": each["id"], "score": score, "doc": {"title": each["title"], "segment": each["text"]}}
        for score, each in ((1.5, PASSAGES[1]), (2.5, PASSAGES[0]))
    ]
    ragnarok = {"query": {"qid": "q1", "text": "what is sold"}, "candidates": candidates}
    assert read(put(json.dumps([ragnarok], indent=1)), questions=put(lines(*QUERIES), "queries")) == [own]
    contexts = {"retrieved_contexts": [each["text"] for each in PASSAGES], "retrieved_context_ids": ["p2", "p1"]}
    ragas = {"user_input": "what is sold", "response": "salt!", "reference": "salt", **contexts}
    [record] = read(put(lines(ragas)))
    assert (record.question, record.answers) == (own.question, own.answers)
    assert [(each.id, each.text) for each in record.passages] == [(each.id, each.text) for each in own.passages]


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + lines(GOOD),
        lines(GOOD).replace("\n", "\r\n"),
        "\n" + lines(GOOD) + "\n\n",
        json.dumps([GOOD], indent=2),
        lines(GOOD | {"source": "mine"}),
        lines({"golden_answers" if name == "answers" else name: value for name, value in GOOD.items()}),
    ],
    ids=["BOM", "CRLF", "blank lines", "JSON list", "another field", "golden_answers"],
)
def test_what_is_no_fault(put, content):
    assert read(put(content)) == [Record(**GOOD)]


def test_ids_may_be_whole_numbers(put):
    [record] = read(put(lines(GOOD | {"id": 7, "passages": [{"id": 12, "text": "t"}]})))
    assert (record.id, record.passages[0].id) == ("7", "12")


def test_a_run_is_sorted_by_score_as_trec_eval_does(put):
    import ir_measures

    corpus = [{"_id": name, "text": f"text {name}"} for name in "abcd"]
    run = "q1 Q0 a 9 1.0 x\nq1 Q0 b 1 1.0 x\nq1 Q0 d 7 3e0 x\nq1 Q0 c 3 -2 x\n"
    [record] = read(**trec(put, run, corpus=corpus))
    order = [passage.id for passage in record.passages]
    assert order == ["d", "b", "a", "c"]
    for rank, name in enumerate(order, 1):  # trec_eval's own rank of each
        [value] = ir_measures.iter_calc([ir_measures.RR], {"q1": {name: 1}}, list(ir_measures.read_trec_run(run)))
        assert value.value == pytest.approx(1 / rank)


def test_of_a_corpus_only_what_the_run_names_is_looked_at(put):
    corpus = [*CORPUS, {"_id": "p9", "text": ""}, {"_id": "p8", "text": 3}]
    assert read(**trec(put, corpus=corpus)) == [Record(**GOOD)]


# --- what is wrong ---------------------------------------------------------------------------------

BAD = {
    "not JSON": (lines(GOOD) + '{"id": "q2", \n', "line 2: not JSON"),
    "NaN": (lines(GOOD) + lines(GOOD | {"id": "q2", "x": float("nan")}), "line 2: not JSON: NaN"),
    "nested too deep": (lines(GOOD) + '{"a":' * 100_000, "line 2: not JSON"),
    "a number too long": (lines(GOOD) + '{"id": ' + "9" * 5000 + "}", "line 2: not JSON"),
    "null": (lines(GOOD) + "null\n", "line 2: wanted an object with named fields, got null"),
    "a list in a line": (lines(GOOD) + "3\n", "line 2: wanted an object with named fields, got int"),
    "answers as one string": (lines(GOOD | {"answers": "salt"}), "line 1, field answers: .* list, got str"),
    "blank answer": (lines(GOOD | {"answers": ["salt", " "]}), r"line 1, field answers.1: should not be blank"),
    "no answers": (lines({k: v for k, v in GOOD.items() if k != "answers"}), "line 1, field answers: field required"),
    "no question": (lines({k: v for k, v in GOOD.items() if k != "question"}), "field question: field required"),
    "question of another type": (lines(GOOD | {"question": 3}), "field question: .* string, got int"),
    "id of another type": (lines(GOOD | {"id": True}), "field id: .* string, got bool"),
    "passages as texts": (lines(GOOD | {"passages": ["Salt."]}), r"field passages.0: .*, got str"),
    "no passages": (lines(GOOD | {"passages": []}), "field passages: .* at least 1 item"),
    "blank text": (lines(GOOD | {"passages": [PASSAGES[0] | {"text": ""}]}), r"passages.0.text: should not be blank"),
    "half a surrogate": (
        lines(GOOD | {"question": "\ud83d"}),
        "field question: (should hold no half of a surrogate pair|input should be a valid string)",
    ),
    "an id twice": (lines(GOOD, GOOD), "line 2, field id: the same as in .*line 1"),
    "a passage twice": (lines(GOOD | {"passages": PASSAGES * 2}), r"passages.2.id: the same as passages.0.id"),
    "unknown format": (lines({"prompt": "a", "text": "b"}), "unknown format; its first line has prompt, text; wanted"),
    "no JSON and no run": ("hello\nworld\n", "unknown format; wanted JSON lines"),
    "empty": ("", "empty; wanted JSON lines"),
    "blank": (" \n\n", "empty; wanted JSON lines"),
    "not UTF-8": (lines(GOOD).encode() + b'{"id": "\xe4"}\n', r"line 2: not UTF-8 \(byte 9\)"),
    "UTF-16": (lines(GOOD).encode("utf-16"), "line 1: not UTF-8"),
    "ragas: ids of another number": (
        lines({"user_input": "a", "retrieved_contexts": ["b", "c"], "retrieved_context_ids": ["1"]}),
        "retrieved_context_ids: 1, but 2 retrieved_contexts",
    ),
    "ragas: messages": (lines({"user_input": [{"content": "a"}], "retrieved_contexts": ["b"]}), "user_input: .*got list"),
    "Ragnarök: score": (
        lines({"query": {"qid": 1, "text": "a"}, "candidates": [{"docid": "d", "score": "x", "doc": {"segment": "b"}}]}),
        r"candidates.0.score: .* number",
    ),
    "Ragnarök: no segment": (
        lines({"query": {"qid": 1, "text": "a"}, "candidates": [{"docid": "d", "score": 1.0, "doc": {}}]}),
        r"candidates.0.doc.segment: field required",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_is_named(put, kind):
    content, said = BAD[kind]
    with pytest.raises(BadInput, match=said):
        read(put(content))


BAD_TREC = {
    "columns": ({"run": RUN + "q1 p3 3 0.5\n"}, "run, line 3: 4 columns, wanted six: question Q0 passage"),
    "a score of words": ({"run": RUN + "q1 Q0 p3 3 high x\n"}, "run, line 3, field score: wanted a finite number"),
    "NaN as score": ({"run": RUN + "q1 Q0 p3 3 nan x\n"}, "run, line 3, field score"),
    "an infinite score": ({"run": RUN + "q1 Q0 p3 3 inf x\n"}, "run, line 3, field score"),
    "a passage twice": ({"run": RUN + "q1 Q0 p1 3 0.5 x\n"}, "run, line 3, field passage: the same as in .*line 2"),
    "a question that is not there": ({"run": RUN + "q7 Q0 p1 1 1 x\n"}, "line 3, field question: 'q7' is not in .*quer"),
    "a passage that is not there": ({"run": RUN + "q1 Q0 p7 3 1 x\n"}, "line 3, field passage: 'p7' is not in .*corpus"),
    "a query twice": ({"queries": [*QUERIES, QUERIES[0]]}, "queries.jsonl, line 3, field id: 'q1' was there before"),
    "a passage of the corpus twice": ({"corpus": [*CORPUS, CORPUS[0]]}, "corpus.jsonl, line 3, field id: 'p2' was"),
    "answers of a query": ({"queries": [QUERIES[0] | {"answers": "salt"}]}, "queries.jsonl, line 1, field answers: .*list"),
    "no text of a passage": ({"corpus": [CORPUS[0], {"_id": "p1", "title": "a"}]}, "line 2, field text: field required"),
    "empty queries": ({"queries": []}, "queries.jsonl: nothing in it"),
    "another corpus": ({"corpus": [{"_id": "x", "text": "y"}]}, "corpus.jsonl: nothing in it that the run names"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_TREC)
def test_what_is_wrong_of_a_trec_run_is_named(put, kind):
    changed, said = BAD_TREC[kind]
    with pytest.raises(BadInput, match=said):
        read(**trec(put, **changed))


def test_files_that_cannot_be_read(put, tmp_path):
    with pytest.raises(BadInput, match=r"cannot be read \(No such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(BadInput, match=r"cannot be read \(Is a directory"):
        read(tmp_path)
    with pytest.raises(BadInput, match=r"none: cannot be read"):
        read(put(RUN), questions=tmp_path / "none", passages=put(lines(*CORPUS), "corpus"), skip_bad=True)


def test_a_line_may_be_long_but_not_endless(put, monkeypatch):
    long = GOOD | {"passages": [{"id": "p", "text": "word " * 400_000}]}
    assert len(read(put(lines(long)))[0].passages[0].text) == 2_000_000
    monkeypatch.setattr("rag_utils.score.formats.LONGEST", 1000)
    with pytest.raises(BadInput, match=r"line 1: longer than"):
        read(put(lines(long, GOOD)))
    assert read(put(lines(long, GOOD)), skip_bad=True) == [Record(**GOOD)]


def test_a_trec_run_needs_both_files_and_others_no_corpus(put):
    with pytest.raises(BadInput, match="needs a file of questions and one of passages"):
        read(put(RUN))
    with pytest.raises(BadInput, match="holds its passages"):
        read(put(lines(GOOD)), passages=put(lines(*CORPUS), "corpus"))


def test_all_is_said_in_one_go_the_first_twenty_and_a_count(put):
    rows = [GOOD | {"id": f"q{n}", "answers": "x", "question": ""} for n in range(15)]
    with pytest.raises(BadInput) as caught:
        read(put(lines(GOOD, *rows)))
    assert len(caught.value.problems) == 30
    said = str(caught.value).splitlines()
    assert said[0].startswith("30 found wrong; nothing was computed") and said[-1].strip() == "... and 10 more"
    assert len(said) == 22 and "line 2, field question" in said[1]


def test_leaving_lines_out_is_advised_only_where_others_stay(put, tmp_path):
    for path, advised in ((put(lines(GOOD) + "nonsense\n"), True), (tmp_path / "none.jsonl", False), (put("{}\n", "bad"), False)):
        with pytest.raises(BadInput) as caught:
            read(path)
        assert ("--skip-bad" in str(caught.value)) is advised


def test_only_the_first_line_may_begin_a_list(put):
    content = lines(GOOD) + "[1, 2]\n" + lines(GOOD | {"id": "q2"})
    with pytest.raises(BadInput, match="line 2: wanted an object with named fields, got list"):
        read(put(content))
    assert [record.id for record in read(put(content), skip_bad=True)] == ["q1", "q2"]


def test_an_id_that_comes_again_is_named_also_after_another_fault(put):
    twice = GOOD | {"passages": GOOD["passages"] * 2}
    with pytest.raises(BadInput) as caught:
        read(put(lines(twice, GOOD)))
    assert [problem.partition("field ")[2].partition(":")[0] for problem in caught.value.problems][-1] == "id"


def test_bad_lines_are_left_out_on_request(put):
    content = lines(GOOD) + "nonsense\n" + lines(GOOD | {"id": "q2"}, GOOD | {"id": "q3", "answers": "x"})
    assert [record.id for record in read(put(content), skip_bad=True)] == ["q1", "q2"]
    run = RUN + "q1 Q0 p9 3 1 x\nq9 Q0 p1 1 1 x\nq2 p1\n"
    assert read(**trec(put, run), skip_bad=True) == [Record(**GOOD)]
    with pytest.raises(BadInput):
        read(put("nonsense {}\n"), skip_bad=True)


def test_messages_quote_no_text(put):
    with pytest.raises(BadInput) as caught:
        read(put(lines(GOOD | {"answers": "secret", "passages": ["secret"], "question": ["secret"]})))
    assert "secret" not in str(caught.value)


def test_records_from_python_are_checked():
    record = Record(**GOOD)
    assert checked([record]) == [record]
    with pytest.raises(ValueError, match="list"):
        Record(**GOOD | {"answers": "salt"})
    for wrong, said in (([], "at least 1"), ([GOOD], "Record only"), ([record, record], "each come once")):
        with pytest.raises(ValueError, match=said):
            checked(wrong)
    twice = Record(**GOOD | {"passages": PASSAGES * 2})
    with pytest.raises(ValueError, match="passages of record 'q1' must each come once"):
        checked([twice])
