"""From files to questions: tiny files of each form, made here, and every way in which a file can be wrong."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from looped import each

from rag_utils import data
from rag_utils.corpora import companion, manifest
from rag_utils.data import (
    Contrast,
    DataError,
    Judged,
    JudgedAnswer,
    Passage,
    Question,
    held_out,
    load,
    load_contrast,
    load_judged,
    question_id,
)

SECRET = "zebrafinch"  # stands in the text of every tiny file and must not stand in a message

NQ = [
    {
        "question": f"which {SECRET} sings at noon",
        "answers": ["the red one", "Red"],
        "ctxs": [{"title": "Birds", "text": f"The red {SECRET} sings at noon.", "hasanswer": True, "isgold": True}],
        "nq_annotated_gold": {"title": "left out"},
    },
    {
        "question": f"when does the {SECRET} sing",
        "answers": ["at noon"],
        "ctxs": [{"title": "Birds", "text": f"The red {SECRET} sings at noon.", "isgold": True}],
    },
]
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Song_birds",
            "paragraphs": [
                {
                    "context": f"A {SECRET} eats seeds.",
                    "qas": [
                        {"id": "s1", "question": "What is eaten?", "answers": [{"text": "seeds", "answer_start": 18}]},
                        {"id": "s2", "question": "Who eats?", "answers": [{"text": SECRET, "answer_start": 2}]},
                    ],
                }
            ],
        }
    ],
}
MULTIHOP = [
    {
        "id": "m1",
        "question": f"Where does the friend of the {SECRET} live?",
        "answers": ["Oslo"],
        "paragraphs": [
            {"title": "Other", "text": "Nothing to see.", "is_supporting": False},
            {"title": "Friend", "text": f"The {SECRET} has a friend, Kim.", "is_supporting": True},
            {"title": "Kim", "text": "Kim lives in Oslo.", "is_supporting": True},
        ],
    },
    {
        "id": "m2",
        "question": "Where does Kim live?",
        "answers": ["Oslo"],
        "paragraphs": [
            {"title": "Kim", "text": "Kim lives in Oslo.", "is_supporting": True},
            {"title": "Lee", "text": "Lee lives in Bergen.", "is_supporting": False},
        ],
    },
]


def evouna(question: str, golds: str | None, improper: bool = False, **changes) -> dict:
    row = {"question": question, "golden_answer": golds, "improper": improper}
    for system in data.SYSTEMS:
        row |= {f"answer_{system}": f"{system} says {SECRET}", f"judge_{system}": system != "fid"}
    return row | changes


EVOUNA = [
    evouna("who sings", "red/ the red one /"),
    evouna("who is silent", None, improper=True, answer_fid=None, judge_fid=None),
    evouna("who eats", "Kim", answer_newbing=None, judge_newbing=None),
    evouna("who sings", "blue"),
]
ARTICLES = [
    {
        "id": "a1",
        "title": "Birds",
        "kind": "invented",
        "split": "train",
        "passages": [
            {"id": "a1-p1", "sentences": [f"The {SECRET} is red.", "It sings."]},
            {"id": "a1-p2", "sentences": ["It sleeps."]},
        ],
    }
]
PLACE = {
    "kind": "invented",
    "split": "train",
    "gold": [{"passage": "a1-p1", "sentences": [0]}],
    "distractors": ["a1-p2"],
}
COMPANION = [
    {"id": "q1", "question": f"What colour is the {SECRET}?", "answers": ["red"], "type": "single", **PLACE},
]
CLAIMS = [
    {"id": "c1", "claim": f"The {SECRET} is red.", "label": "supported", **PLACE},
    {"id": "c2", "claim": f"The {SECRET} is blue.", "label": "refuted", **PLACE},
]
LONG = [{"id": "l1", "question": f"Why is the {SECRET} red?", "answer": f"The {SECRET} was born red.", **PLACE}]
CONTRAST = [
    {
        "id": "p1",
        "question": f"What colour is the {SECRET}?",
        "left": "red",
        "right": "not blue but red",
        "equivalent": True,
        "category": "negation",
        "split": "train",
    },
    {
        "id": "p2",
        "question": f"How many eggs has the {SECRET}?",
        "left": "2",
        "right": "twelve",
        "equivalent": False,
        "category": "number",
        "split": "test",
    },
]
FORMS = {  # data set -> (path, content, writer)
    "nq": ("nq/nq.jsonl.gz", NQ),
    "squad": ("squad.json", SQUAD),
    "hotpotqa": ("hotpotqa.jsonl", MULTIHOP),
    "musique": ("musique.jsonl", MULTIHOP),
    "evouna_nq": ("evouna.json", EVOUNA),
    "articles": ("articles.jsonl", ARTICLES),
    "companion": ("questions.jsonl", COMPANION),
    "companion_claims": ("claims.jsonl", CLAIMS),
    "companion_long": ("long.jsonl", LONG),
    "companion_contrast": ("contrast.jsonl", CONTRAST),
}


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write every tiny file and a manifest for them; return a function that writes one with another content."""
    monkeypatch.setattr(manifest, "MANIFEST", tmp_path / "manifest.json")
    monkeypatch.setattr(companion, "COMPANION", tmp_path)
    monkeypatch.setenv("RAG_COMPANION_DATA", str(tmp_path))
    known = {}

    def put(name: str, content: object) -> Path:
        path = tmp_path / FORMS[name][0]
        path.parent.mkdir(exist_ok=True)
        if not isinstance(content, bytes):
            text = "\n".join(map(json.dumps, content)) + "\n" if ".jsonl" in path.name else json.dumps(content)
            content = gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
        path.write_bytes(content)
        known[name] = {
            "path": FORMS[name][0],
            "sha256": hashlib.sha256(content).hexdigest(),
            "rows": 1,
            "source": "invented",
            "url": ["https://example.org/rows"],
            "licence": "CC0",
        }
        manifest.MANIFEST.write_text(json.dumps(known))
        return path

    for name, (_, content) in FORMS.items():
        put(name, content)
    return put


def read(name: str) -> list:
    if name == "evouna_nq":
        return load_judged(name)
    if name == "companion_contrast":
        return load_contrast()
    return load("companion" if name == "articles" else name)


def changed(content: object, keys: tuple, value: object) -> object:
    """A deep copy with the value at `keys` replaced, or taken out if it is `...`."""
    content = json.loads(json.dumps(content))
    place = content
    for key in keys[:-1]:
        place = place[key]
    if value is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return content


# --- what comes out --------------------------------------------------------------------------------------------------


def test_nq_gets_ids_from_its_questions_and_shares_passages(put):
    one, two = load("nq")
    birds = Passage(
        data.passage_id("Birds", f"The red {SECRET} sings at noon."), "Birds", f"The red {SECRET} sings at noon."
    )
    assert one == Question(
        question_id(one.text), f"which {SECRET} sings at noon", ("the red one", "Red"), "nq", (birds,)
    )
    assert one.id == hashlib.sha256(one.text.encode()).hexdigest()[:12]
    assert two.gold == (birds,)
    assert data.passages("nq") == [birds]


def test_a_question_that_comes_again_gets_a_number(put):
    put("nq", [*NQ, NQ[0], NQ[0]])
    first = question_id(NQ[0]["question"])
    assert [q.id for q in load("nq")] == [first, question_id(NQ[1]["question"]), f"{first}-2", f"{first}-3"]


def test_squad_has_one_passage_per_paragraph(put):
    one, two = load("squad")
    assert (one.id, one.answers, two.answers) == ("s1", ("seeds",), (SECRET,))
    assert one.gold == two.gold == tuple(data.passages("squad"))
    assert one.gold[0].title == "Song birds"


@each("name", ["hotpotqa", "musique"])
def test_multihop_parts_gold_from_distractors_and_pools_each_paragraph_once(put, name):
    one, two = load(name)
    assert [p.title for p in one.gold] == ["Friend", "Kim"]
    assert [p.title for p in one.distractors] == ["Other"]
    assert one.gold[1] == two.gold[0]
    assert [p.title for p in data.passages(name)] == ["Friend", "Kim", "Other", "Lee"]
    assert (one.dataset, one.split, one.type, one.kind, one.gold_sentences) == (name, None, None, None, ())


def test_companion_joins_sentences_and_keeps_their_numbers(put):
    (one,) = load("companion")
    first, second = data.passages("companion")
    assert first == Passage("a1-p1", "Birds", f"The {SECRET} is red. It sings.", (f"The {SECRET} is red.", "It sings."))
    assert one == Question(
        id="q1",
        text=f"What colour is the {SECRET}?",
        answers=("red",),
        dataset="companion",
        gold=(first,),
        distractors=(second,),
        split="train",
        type="single",
        kind="invented",
        gold_sentences=((0,),),
    )


def test_claims_and_long_questions_are_questions_over_the_same_pool(put):
    true, false = load("companion_claims")
    (long,) = load("companion_long")
    (one,) = load("companion")
    common = {"gold": one.gold, "distractors": one.distractors, "split": "train", "kind": "invented"}
    common["gold_sentences"] = ((0,),)
    assert true == Question("c1", f"The {SECRET} is red.", ("true",), "companion_claims", type="claim", **common)
    assert false == Question("c2", f"The {SECRET} is blue.", ("false",), "companion_claims", type="claim", **common)
    reference = f"The {SECRET} was born red."
    assert long == Question("l1", f"Why is the {SECRET} red?", (reference,), "companion_long", type="long", **common)
    assert data.passages("companion_claims") == data.passages("companion_long") == data.passages("companion")


def test_contrast_keeps_every_field(put):
    one, two = load_contrast()
    assert one == Contrast(
        id="p1",
        question=f"What colour is the {SECRET}?",
        left="red",
        right="not blue but red",
        equivalent=True,
        category="negation",
        split="train",
    )
    assert (two.equivalent, two.category, two.split) == (False, "number", "test")
    assert data.table("companion_contrast").to_list() == CONTRAST


def test_evouna_leaves_out_improper_rows_and_says_where_a_verdict_is_missing(put):
    one, two, again = load_judged("evouna_nq")
    assert isinstance(one, Judged)
    assert (one.question, one.golds) == ("who sings", ("red", "the red one"))
    assert one.answers[0] == JudgedAnswer("fid", f"fid says {SECRET}", False)
    assert [answer.system for answer in one.answers] == list(data.SYSTEMS)
    assert two.answers[4] == JudgedAnswer("newbing", "", None)
    assert (one.id, again.id) == (question_id("who sings"), question_id("who sings") + "-2")


def test_tables_have_the_same_columns_and_types_for_every_data_set(put):
    names = ("companion", "companion_claims", "companion_long", "nq", "squad", "hotpotqa", "musique")
    assert len({str(data.table(name).features) for name in names}) == 1
    assert data.table("evouna_nq").column_names == ["id", "text", "golds", "answers"]
    assert load("musique") == load("musique")


def test_the_held_out_quarter_is_a_quarter_and_the_id_does_not_tell():
    texts = [f"question number {i}" for i in range(4000)]
    held = [held_out(text) for text in texts]
    assert held == [int(hashlib.sha256(text.encode()).hexdigest(), 16) % 4 == 0 for text in texts]
    assert abs(sum(held) / len(held) - 0.25) < 0.03
    for place in range(12):  # the wrong choice, a digit of the id, would be all or nothing here
        shares = [held_out(text) for text in texts if question_id(text)[place] == "0"]
        assert 0.1 < sum(shares) / len(shares) < 0.4


def test_reading_needs_no_network_no_home_and_no_heavy_import(put, tmp_path):
    code = """
import socket, sys
def no(*args, **kwargs): raise RuntimeError("network")
socket.socket.connect = socket.getaddrinfo = no
import rag_utils.data, rag_utils.retrieve
from pathlib import Path
from rag_utils import data
from rag_utils.corpora import manifest
print(sorted({"datasets", "torch", "faiss", "bm25s", "sentence_transformers"} & set(sys.modules)))
manifest.MANIFEST = Path(sys.argv[1])
print(len(data.load("nq")))
"""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "XDG_", "RAG_"))}
    environment |= {"HOME": "/dev/null", "RAG_COMPANION_CACHE": "/dev/null/x", "RAG_COMPANION_DATA": str(tmp_path)}
    environment["PYTHONPATH"] = str(manifest.ROOT)
    command = [sys.executable, "-c", code, str(manifest.MANIFEST)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n2\n", "")


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "keys", "value", "row", "field"),
    [
        ("nq", (1, "question"), ..., 2, "question: missing"),
        ("nq", (1, "question"), 5, 2, "question: Input should be a valid string, got int"),
        ("nq", (0, "question"), " ", 1, "question: should not be blank"),
        ("nq", (0, "answers"), [], 1, "answers: List should have at least 1 item"),
        ("nq", (0, "answers"), SECRET, 1, "answers: Input should be a valid list, got str"),
        ("nq", (0, "answers"), ["", SECRET], 1, "answers.0: should not be blank"),
        ("nq", (0, "ctxs", 0, "text"), None, 1, "ctxs.0.text: Input should be a valid string, got NoneType"),
        ("nq", (0, "ctxs", 0, "text"), "\ud800", 1, "ctxs.0.text: "),
        ("nq", (0, "ctxs", 0, "isgold"), False, 1, "ctxs: no passage is marked as gold"),
        ("nq", (1, "ctxs", 0, "isgold"), 1, 2, "ctxs.0.isgold: Input should be a valid boolean, got int"),
        ("squad", ("data", 0, "title"), ..., 1, "title: missing"),
        ("squad", ("data", 0, "paragraphs", 0, "qas", 1, "id"), ..., 1, "paragraphs.0.qas.1.id: missing"),
        (
            "squad",
            ("data", 0, "paragraphs", 0, "qas", 1, "id"),
            "s1",
            1,
            "paragraphs.qas.id: the same was there before",
        ),
        ("squad", ("data", 0, "paragraphs", 0, "qas", 0, "answers"), [], 1, "paragraphs.0.qas.0.answers: List should"),
        ("hotpotqa", (1, "id"), "m1", 2, "id: the same was there before"),
        ("musique", (0, "paragraphs", 1, "is_supporting"), ..., 1, "paragraphs.1.is_supporting: missing"),
        ("musique", (1, "paragraphs", 1), MULTIHOP[1]["paragraphs"][0], 2, "paragraphs: the same was there before"),
        ("evouna_nq", (2, "judge_newbing"), ..., 3, "judge_newbing: missing"),
        ("evouna_nq", (2, "judge_gpt4"), "yes", 3, "judge_gpt4: Input should be a valid boolean, got str"),
        ("evouna_nq", (0, "golden_answer"), " / ", 1, "golden_answer: no gold in it"),
        ("evouna_nq", (0, "golden_answer"), None, 1, "golden_answer: no gold in it"),
        ("articles", (0, "passages", 1, "id"), "a1-p1", 1, "passages.id: the same was there before"),
        ("articles", (0, "passages", 0, "sentences"), [], 1, "passages.0.sentences: List should"),
        ("companion", (0, "gold", 0, "passage"), f"{SECRET}-p9", 1, "gold.0.passage: no article has this passage"),
        ("companion", (0, "distractors"), ["a1-p2", "a1-p9"], 1, "distractors.1: no article has this passage"),
        ("companion", (0, "distractors"), ["a1-p1"], 1, "gold and distractors: the same was there before"),
        ("companion", (0, "gold", 0, "sentences"), [2], 1, "gold.0.sentences: wanted 0 to 1"),
        ("companion", (0, "gold", 0, "sentences"), [-1], 1, "gold.0.sentences: wanted 0 to 1"),
        ("companion", (0, "type"), SECRET, 1, "type: Input should be 'single', 'bridge', 'comparison' or 'yes_no'"),
        ("companion_claims", (1, "claim"), " ", 2, "claim: should not be blank"),
        ("companion_claims", (1, "label"), SECRET, 2, "label: Input should be 'supported' or 'refuted', got str"),
        ("companion_claims", (1, "label"), True, 2, "label: Input should be 'supported' or 'refuted', got bool"),
        ("companion_claims", (1, "id"), "c1", 2, "id: the same was there before"),
        ("companion_claims", (0, "gold", 0, "passage"), f"{SECRET}-p9", 1, "gold.0.passage: no article has this"),
        ("companion_claims", (0, "gold"), [], 1, "gold: List should have at least 1 item"),
        ("companion_long", (0, "answer"), ..., 1, "answer: missing"),
        ("companion_long", (0, "answer"), [SECRET], 1, "answer: Input should be a valid string, got list"),
        ("companion_long", (0, "gold", 0, "sentences"), [2], 1, "gold.0.sentences: wanted 0 to 1"),
        ("companion_long", (0, "kind"), SECRET, 1, "kind: Input should be 'real' or 'invented'"),
        ("companion_contrast", (1, "id"), "p1", 2, "id: the same was there before"),
        ("companion_contrast", (1, "equivalent"), 1, 2, "equivalent: Input should be a valid boolean, got int"),
        ("companion_contrast", (0, "category"), SECRET, 1, "category: Input should be 'number', 'date', 'yes_no', "),
        ("companion_contrast", (0, "split"), "dev", 1, "split: Input should be 'train' or 'test'"),
        ("companion_contrast", (0, "right"), ..., 1, "right: missing"),
        ("companion_contrast", (0, "left"), "", 1, "left: should not be blank"),
    ],
)
def test_a_row_of_another_form_is_named_by_file_row_and_field(put, name, keys, value, row, field):
    path = put(name, changed(FORMS[name][1], keys, value))
    with pytest.raises(DataError) as error:
        read(name)
    assert str(error.value).startswith(f"{path}, row {row}, field {field}")
    assert SECRET not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize("name", FORMS)
def test_what_is_not_json_or_cut_short_is_named(put, name):
    lines = ".jsonl" in FORMS[name][0]
    pack = gzip.compress if FORMS[name][0].endswith(".gz") else bytes
    whole = json.dumps(FORMS[name][1][0] if lines else FORMS[name][1]).encode()
    for content, wanted in [
        (whole[:-3], "not JSON, or cut short (line 1, column "),
        (b"<html>", "not JSON, or cut short (line 1, column 1)"),
        (b"[" * 100_000, "not JSON"),
        (whole[:9] + b"\xff" + whole[9:], "not UTF-8"),
        (
            b'"text"',
            "wanted an object with named fields, got str" if lines else "wanted a list with one item per row, got",
        ),
        (b"", "empty" if lines else "not JSON"),
        (b"[7]", "got "),
    ]:
        path = put(name, pack(content))
        with pytest.raises(DataError) as error:
            read(name)
        assert str(error.value).startswith(str(path))
        assert wanted in str(error.value)
        assert SECRET not in str(error.value)


def test_a_gzip_file_that_breaks_off_is_named(put):
    whole = gzip.compress("".join(json.dumps(NQ[0]) + "\n" for _ in range(2)).encode())
    for content in (whole[:-12], whole[:40], b"no gzip", whole[:30] + b"\0\0\0\0" + whole[34:]):
        path = put("nq", content)
        with pytest.raises(DataError, match=r"not a whole gzip file.* after row \d|not JSON|not UTF-8") as error:
            load("nq")
        assert str(path) in str(error.value)


def test_a_changed_file_does_not_get_as_far_as_its_rows(put):
    path = put("squad", SQUAD)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(DataError, match="SHA-256"):
        load("squad")


def test_files_that_are_not_there_are_named(put):
    for name in ("companion", "companion_claims", "companion_long", "companion_contrast"):
        file = FORMS[name][0]
        (companion.COMPANION / file).unlink()
        with pytest.raises(DataError, match=rf"cannot read .*{file}: No such file"):
            read(name)
    (companion.COMPANION / "squad.json").unlink()
    with pytest.raises(DataError, match="data set 'squad' is not here"):
        load("squad")


@each("function", [load, data.passages, data.table, load_judged])
def test_an_unknown_name_gets_the_near_ones(function):
    wanted, near = ("evouna", "evouna_tq' or 'evouna_nq") if function is load_judged else ("hotpot", "hotpotqa")
    with pytest.raises(ValueError, match=f"unknown .*data set '{wanted}'; did you mean '{near}'"):
        function(wanted)
    with pytest.raises(ValueError, match="unknown"):
        function("kv_retrieval")


# --- the real files --------------------------------------------------------------------------------------------------

needs_files = pytest.mark.skipif(
    not os.environ.get("RAG_COMPANION_DATA"),
    reason="RAG_COMPANION_DATA is not set: the benchmarks' own files were not read",
)


@needs_files
@each(
    ("name", "pool"), [("nq", 2600), ("squad", 240), ("hotpotqa", 145), ("musique", 104)], ids=lambda value: str(value)
)
def test_every_benchmark_loads_with_the_rows_of_the_manifest(name, pool):
    questions = load(name)
    assert len(questions) == manifest.entries()[name].rows
    assert len({question.id for question in questions}) == len(questions)
    assert len(data.passages(name)) == pool  # 4 of musique's 108 paragraphs come twice
    assert all(question.gold for question in questions)
    if name == "nq":
        assert {question.id for question in questions} == {question_id(question.text) for question in questions}


@needs_files
def test_evouna_loads_with_the_counts_that_were_recorded():
    judged = load_judged("evouna_nq")
    assert len(judged) == len({item.id for item in judged}) == 3020
    right = Counter(answer.system for item in judged for answer in item.answers if answer.verdict)
    assert right == {"fid": 2082, "gpt35": 1978, "chatgpt": 2204, "gpt4": 2381, "newbing": 2413}
    assert [answer.system for item in judged for answer in item.answers if answer.verdict is None] == ["newbing"]
    nq = {question.text for question in load("nq")}
    assert sum(item.question in nq for item in judged) == 2299


def test_one_string_is_no_list_of_answers():
    with pytest.raises(ValueError, match=r"answers must be a list; got str; write \[answers\]"):
        Question("q", "who", "Paris", "toy")
    with pytest.raises(ValueError, match="sentences must be a list; got str"):
        Passage("p", "A", "red", "red")
    for field in ("gold", "distractors"):
        with pytest.raises(ValueError, match=f"{field} must hold Passage only; got str"):
            Question("q", "who", ("Paris",), "toy", **{field: ("p1",)})
    with pytest.raises(ValueError, match="id must be a string; got int"):
        Question(7, "who", ("Paris",), "toy")
