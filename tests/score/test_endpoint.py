"""A server as a reader: equal to the model itself where it is right, and said in one sentence where it is not; nothing is asked twice."""

import json
import socket
import threading

import numpy as np
import pytest
import served

from rag_utils import data, lm, prompts
from rag_utils.engine import recordings
from rag_utils.engine.recordings import RecordingError
from rag_utils.measures import moi, seper
from rag_utils.score import endpoint
from rag_utils.score.endpoint import Endpoint, EndpointError
from rag_utils.score.readers import load_reader

PROMPTS = ["the sea is", "Question: what is salt?\nAnswer:", "a", "why does it rain in the hills?", "x y z"]
CONTINUATIONS = [" cold", " a stone", "bc", " so", " and\nmore"]
SOON = {"pause": 0.001, "timeout": 30.0}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "TRACKED", tmp_path / "tracked")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    for name in (*endpoint.KEYS, "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return served.save(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def local(folder):
    return lm.load(folder, mode="fresh")


@pytest.fixture
def served_at(folder):
    """A function: faults -> a server with them, and a reader at its address."""
    open_servers = []

    def start(mode="live", **faults):
        opened = served.serving(folder, **faults)
        open_servers.append(opened)
        server = opened.__enter__()
        return server, Endpoint(server.address, mode=mode, **SOON)

    yield start
    for opened in open_servers:
        opened.__exit__(None, None, None)


# --- equal to the model itself ---------------------------------------------------------------------


def test_greedy_replies_are_those_of_the_model(served_at, local):
    _, reader = served_at()
    for [ours], [theirs] in zip(reader.generate(PROMPTS), local.generate(PROMPTS), strict=True):
        assert ours.text == theirs.text
        assert ours.token_log_likelihood == pytest.approx(theirs.token_log_likelihood, abs=1e-4)


@pytest.mark.parametrize("cuts", [True, False])
def test_log_likelihoods_are_those_of_the_model_as_token_ids_and_as_text(served_at, local, cuts):
    server, reader = served_at(cuts=cuts)
    contexts, continuations = [*PROMPTS, "", ""], [*CONTINUATIONS, "the sea", "aaaa"]
    ours = reader.log_likelihood(contexts, continuations)
    for values, expected in zip(ours, local.log_likelihood(contexts, continuations), strict=True):
        assert len(values) == len(expected) and np.abs(values - expected).max() < 1e-4
    assert any(isinstance(prompt, list) for prompt in server.prompts) == cuts


def test_the_token_that_had_to_be_written_is_not_taken_for_the_continuation(served_at, local):
    def echoed(path, answer):
        for choice in answer.get("choices", []):
            if len(choice["logprobs"]["tokens"]) > endpoint.STEPS:
                choice["logprobs"]["tokens"][-1], choice["logprobs"]["token_logprobs"][-1] = "d", -9.0
        return answer

    _, reader = served_at(cuts=False, spoil=echoed)
    [values], [expected] = (each.log_likelihood(["the sea is so odd"], ["dd"]) for each in (reader, local))
    assert np.abs(values - expected).max() < 1e-4


@pytest.mark.parametrize("heeds_n", [True, False])
def test_samples_are_different_and_carry_the_raw_log_likelihood(served_at, local, heeds_n):
    server, reader = served_at(heeds_n=heeds_n)
    groups = reader.generate(PROMPTS, n=4, temperature=1.0, max_new_tokens=6)
    assert [len(group) for group in groups] == [4] * len(PROMPTS)
    assert all(len({reply.text for reply in group}) > 1 for group in groups)
    whole = [(prompt, reply) for prompt, group in zip(PROMPTS, groups, strict=True) for reply in group if reply.text]
    expected = local.log_likelihood([prompt for prompt, _ in whole], [reply.text for _, reply in whole])
    for (_, reply), values in zip(whole, expected, strict=True):
        assert reply.token_log_likelihood == pytest.approx(values, abs=1e-4)
    asked = len(server.prompts)
    assert len(PROMPTS) <= asked <= len(PROMPTS) * (1 if heeds_n else 4)
    more = reader.generate(PROMPTS, n=5, temperature=1.0, max_new_tokens=6)
    assert [group[:4] for group in texts(more)] == texts(groups) and len(server.prompts) == asked + len(PROMPTS)
    seeds = [content["seed"] for _, content, _ in server.asked if content and "seed" in content]
    assert len(set(seeds)) == len(seeds)
    assert texts(reader.generate(PROMPTS, n=4, temperature=1.0, max_new_tokens=6, seed=1)) != texts(groups)
    both = texts(reader.generate(PROMPTS, n=4, temperature=1.0, max_new_tokens=6, greedy=True))
    assert [group[:4] for group in both] == texts(groups)
    assert [group[4:] for group in both] == texts(local.generate(PROMPTS, max_new_tokens=6))


def texts(groups):
    return [[reply.text for reply in group] for group in groups]


def test_another_temperature_gives_text_only(served_at):
    _, reader = served_at()
    [[reply]] = reader.generate(["why?"], temperature=0.5)
    with pytest.raises(ValueError, match=r"temperature 0\.5 is neither 0 nor 1"):
        reply.log_likelihood  # noqa: B018


def test_a_chat_is_sent_as_a_message(served_at):
    server, reader = served_at(chats=True)
    [[reply]] = reader.generate([reader.chat("what is salt?")])
    [[plain]] = reader.generate(["user: what is salt?\n"])
    assert reply.text == plain.text and (reply.token_log_likelihood == plain.token_log_likelihood).all()
    assert server.asked[-2][1]["messages"] == [{"role": "user", "content": "what is salt?"}]
    with pytest.raises(ValueError, match="asked in chat"):
        reader.log_likelihood([reader.chat("a")], [" b"])
    _, other = served_at(chats=False)
    with pytest.raises(ValueError, match=r"tiny is not asked in chat: .* status 400, no chat template"):
        other.chat("a")


def test_tokens_are_counted_as_the_model_counts_them_and_once(served_at, local):
    for cuts in (True, False):
        server, reader = served_at(mode="fresh", cuts=cuts)
        reader.generate(PROMPTS[:1])
        asked = len(server.asked)
        assert reader.count_tokens(PROMPTS[0]) == local.count_tokens(PROMPTS[0]) and len(server.asked) == asked
        assert [reader.count_tokens(text) for text in PROMPTS * 2] == [local.count_tokens(text) for text in PROMPTS * 2]
        assert len(server.asked) <= asked + len(PROMPTS) + 1
        assert reader.count_tokens("") == 0
    with pytest.raises(EndpointError, match=r"does not say how it cuts a text into tokens: .* status 404"):
        reader.encode("a")
    _, reader = served_at()
    assert reader.encode("ab") == local.encode("ab")
    assert reader.encode("ab", context=False) == local.encode("ab", context=False) != local.encode("ab")


def test_measures_say_the_same_through_an_address(served_at, local):
    _, reader = served_at()
    passages = [data.Passage(f"p{i}", "", text) for i, text in enumerate(("Salt is a stone.", "Rain is wet.", "So."))]
    question = data.Question("q", "what is salt?", ("a stone",), "own", (passages[0],))
    shown, orders = {"q": passages}, {"pruned": {"q": [[0, 1], [2, 0], [1, 2]]}}
    read = {"prompt": prompts.load("read_plain"), "prior": False}
    ours, theirs = (moi.saliencies(each, [question], shown, orders, **read)["query"] for each in (reader, local))
    assert ours.to_numpy() == pytest.approx(theirs.to_numpy(), abs=1e-3)
    drawn = seper.draw(reader, {("q", "closed book"): "what is salt?"}, n=3, max_new_tokens=4)
    rescored = local.log_likelihood(["what is salt?"] * 3, [reply.text or "\n" for reply in drawn["q", "closed book"]])
    sums = [reply.log_likelihood for reply in drawn["q", "closed book"]]
    assert sums == pytest.approx([values.sum() for values in rescored], abs=1e-3)


# --- what it cannot do is refused by name ----------------------------------------------------------


@pytest.mark.parametrize("cuts", [True, False])
@pytest.mark.parametrize(
    ("echo", "said"), [("left out", "came back as 1|come back"), ("shifted", "off by up to"), ("deaf", "off by up to")]
)
def test_wrong_log_likelihoods_of_prompts_are_noticed_before_they_are_used(served_at, echo, said, cuts):
    _, reader = served_at(echo=echo, cuts=cuts)
    assert not reader.scores_prompts and reader.scores_replies
    with pytest.raises(ValueError, match=rf"tiny gives no log-likelihoods of prompts: .*({said})"):
        reader.log_likelihood(["the sea is"], [" cold"])
    assert reader.generate(["the sea is"])[0][0].token_log_likelihood.size


def test_values_by_one_place_wrong_look_right_to_every_other_check(served_at, local):
    """Finite, at most 0, as many as there are tokens: only a text whose values are known tells."""
    _, reader = served_at(echo="shifted")
    reader.scores_prompts = True
    [values], [expected] = (
        reader.log_likelihood(["the sea is"], [" cold"]),
        local.log_likelihood(["the sea is"], [" cold"]),
    )
    assert len(values) == len(expected) and (values <= 0).all() and np.abs(values - expected).max() > endpoint.NEAR


@pytest.mark.parametrize("logprobs", ["left out", "refused"])
def test_text_without_log_likelihoods_is_text_and_never_a_number(served_at, local, logprobs):
    _, reader = served_at(logprobs=logprobs)
    [[reply]] = reader.generate(PROMPTS[:1])
    assert reply.text == local.generate(PROMPTS[:1])[0][0].text
    for name in ("log_likelihood", "token_log_likelihood"):
        with pytest.raises(ValueError, match="tiny gave no log-likelihoods of its replies; weigh them by their share"):
            getattr(reply, name)
    assert not reader.scores_replies and not reader.scores_prompts


def test_a_point_mass_is_no_log_likelihood(served_at):
    def certain(path, answer):
        for choice in answer.get("choices", []):
            choice["logprobs"]["token_logprobs"] = [0.0 for _ in choice["logprobs"]["tokens"]]
        return answer

    _, reader = served_at(spoil=certain)
    assert not reader.scores_replies and "all 0" in reader.reasons["replies"]


def test_a_context_may_be_empty_only_where_a_text_begins_with_a_token(tmp_path):
    with served.serving(served.save(tmp_path / "plain", bos=False)) as server:
        reader = Endpoint(server.address, **SOON)
        with pytest.raises(EndpointError, match="a context must not be empty"):
            reader.log_likelihood([""], ["the sea"])


# --- servers that are busy, die, stall and lie -----------------------------------------------------


def test_a_busy_server_is_asked_again(served_at, local):
    server, reader = served_at()
    server.statuses = [429, 429, 503]
    assert texts(reader.generate(PROMPTS[:1])) == texts(local.generate(PROMPTS[:1]))
    assert len(server.prompts) == 4
    server.statuses = [500] * 100
    with pytest.raises(EndpointError, match=r"completions gave no answer in 6 attempts; the last: status 500, not now"):
        reader.generate(["another"])
    assert len(server.prompts) == 10


def test_after_a_death_nothing_is_asked_twice(served_at, local):
    asked = [f"prompt {i}" for i in range(40)]
    first, reader = served_at(lives=17)
    with pytest.raises(EndpointError, match=r"gave no answer in \d attempts; the last: Remote"):
        reader.generate(asked, max_new_tokens=3)
    answered = set(first.prompts[:17])
    second, again = served_at()
    assert texts(again.generate(asked, max_new_tokens=3)) == texts(local.generate(asked, max_new_tokens=3))
    assert sorted(second.prompts) == sorted(set(asked) - answered)
    third, replay = served_at(mode="replay")
    assert texts(replay.generate(asked, max_new_tokens=3)) == texts(again.generate(asked, max_new_tokens=3))
    assert third.prompts == [] and replay.scores_prompts and replay.fingerprint == reader.fingerprint
    with pytest.raises(RecordingError, match="1 of 1 model calls are not recorded"):
        replay.generate(["new"])


def test_of_samples_that_come_one_by_one_none_is_asked_twice(served_at):
    first, reader = served_at(heeds_n=False, lives=3)
    with pytest.raises(EndpointError):
        reader.generate(["why?"], n=6, temperature=1.0, max_new_tokens=3)
    second, again = served_at(heeds_n=False)
    again.generate(["why?"], n=6, temperature=1.0, max_new_tokens=3)
    seeds = [[content["seed"] for path, content, _ in each.asked if content] for each in (first, second)]
    assert len(seeds[1]) == 3 and not {*seeds[0][:3]} & {*seeds[1]}


def test_what_is_answered_after_an_error_is_kept_too(served_at):
    asked = [f"prompt {i}" for i in range(12)]
    first, reader = served_at(stalled=threading.Event())
    first.statuses = [401]
    threading.Timer(0.3, first.stalled.set).start()
    with pytest.raises(EndpointError, match="wants another key"):
        reader.generate(asked, max_new_tokens=3)
    second, again = served_at()
    again.generate(asked, max_new_tokens=3)
    assert sorted(second.prompts) == sorted(set(asked) - set(first.prompts[1:]))


def test_likelihoods_and_counts_are_recorded_too(served_at):
    _, reader = served_at()
    [values] = reader.log_likelihood(["the sea is"], [" cold"])
    size = reader.count_tokens("a passage")
    server, replay = served_at(mode="replay")
    assert (replay.log_likelihood(["the sea is"], [" cold"])[0] == values).all()
    assert replay.count_tokens("a passage") == size and len(server.asked) == 1


def test_fresh_neither_reads_nor_writes(served_at, tmp_path):
    _, reader = served_at(mode="fresh")
    reader.generate(PROMPTS[:1])
    assert not (tmp_path / "cache").exists()


def test_a_server_that_stalls_is_given_up(folder):
    with served.serving(folder, stalled=threading.Event()) as server:
        reader = Endpoint(server.address, pause=0.001, timeout=0.3)
        with pytest.raises(EndpointError, match="gave no answer in 2 attempts; the last: ReadTimeout"):
            reader.generate(["why?"])
        server.stalled.set()


def with_values(change):
    def spoil(path, answer):
        for choice in answer.get("choices", []):
            held = choice["logprobs"]
            held["token_logprobs"] = change(held["token_logprobs"])
        return answer

    return spoil


LIES = {
    "positive": (with_values(lambda values: [0.5] * len(values)), "finite and at most 0; got 0.5"),
    "NaN": (with_values(lambda values: [float("nan")] * len(values)), "finite and at most 0; got nan"),
    "infinite": (with_values(lambda values: [-float("inf")] * len(values)), "finite and at most 0; got -inf"),
    "null": (with_values(lambda values: [None] * len(values)), "finite and at most 0; got None"),
    "text": (with_values(lambda values: ["-1"] * len(values)), "finite and at most 0; got '-1'"),
    "too few": (with_values(lambda values: values[:-1]), "as many log-likelihoods as tokens; got 31 and 32"),
    "html": (lambda path, answer: b"<html>sign in</html>", "no JSON object: b'<html>sign in</html>'"),
    "cut short": (lambda path, answer: json.dumps(answer).encode()[:-9], "no JSON object"),
    "deep": (lambda path, answer: b"[" * 100_000, "no JSON object"),
    "list": (lambda path, answer: b"[]", "no JSON object"),
    "no choices": (lambda path, answer: {"choices": []}, "must answer with choices"),
    "no text": (lambda path, answer: {"choices": [{"text": None}]}, "must answer with text; got None"),
    "too many": (lambda path, answer: {"choices": [{"text": "a" * 40, "logprobs": {
        "tokens": ["a"] * 40, "token_logprobs": [-1.0] * 40}}]}, "asked for 32 tokens and answered with 40"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_said_and_not_recorded(served_at, lie):
    spoil, said = LIES[lie]
    server, reader = served_at()
    server.spoil = spoil
    with pytest.raises(EndpointError) as caught:
        reader.generate(["the sea is"], stop=("#",))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    server.spoil = lambda path, answer: answer
    assert reader.generate(["the sea is"], stop=("#",))[0][0].text


@pytest.mark.parametrize("lie", ["positive", "NaN", "null", "too few"])
def test_a_lie_about_prompts_is_a_reason_not_to_use_them(served_at, lie):
    spoil = LIES[lie][0]
    server, reader = served_at()

    def of_prompts(path, answer):
        echoed = any(len(choice["logprobs"]["tokens"]) > endpoint.STEPS for choice in answer.get("choices", []))
        return spoil(path, answer) if echoed else answer

    server.spoil = of_prompts
    assert reader.scores_replies and not reader.scores_prompts and reader.reasons["prompts"]


def test_arguments_are_checked_before_anything_is_asked(served_at):
    server, reader = served_at()
    asked = len(server.asked)
    for wrong in ({"n": 0}, {"temperature": -1}, {"stop": ()}, {"stop": tuple("abcde")}, {"seed": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            reader.generate(["a"], **wrong)
    with pytest.raises(ValueError, match="contexts"):
        reader.log_likelihood("a", [" b"])
    with pytest.raises(ValueError, match="lengths must be equal"):
        reader.log_likelihood(["a"], [" b", " c"])
    assert len(server.asked) == asked


# --- addresses, models and keys --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ftp://localhost", "must be http://HOST:PORT"),
        ("http://", "must be http://HOST:PORT"),
        ("http://host:port", "cannot be read"),
        ("http://[", "cannot be read"),
        ("http://me:secret@host", "must hold no password"),
        ("http://host/v1?api_key=secret", "must hold no password or query"),
    ],
)
def test_an_address_that_is_none_is_said(address, said):
    with pytest.raises(ValueError, match=said) as caught:
        Endpoint(address)
    assert "secret" not in str(caught.value)


def test_nobody_there_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EndpointError, match=r"/v1/models gave no answer in 6 attempts; the last: ConnectError.*is the server running"):
            Endpoint(address, pause=0.001)


def test_the_model_is_the_only_one_or_named(folder):
    with served.serving(folder, names=["one", "two"]) as server:
        with pytest.raises(EndpointError, match=r"has 2 models; name one, as in \S+/v1#NAME; they are: one, two"):
            Endpoint(server.address)
        with pytest.raises(ValueError, match="did you mean 'two'"):
            Endpoint(f"{server.address}#twoo")
        reader = Endpoint(f"{server.address}/v1/completions#two", mode="fresh")
        reader.generate(["a"])
        assert reader.name == "two" and server.asked[-1][1]["model"] == "two"
        assert Endpoint(f"{server.address}/v1#one").fingerprint != reader.fingerprint
        server.spoil = lambda path, answer: {"models": []}
        with pytest.raises(EndpointError, match="holds no list of models; is the address right"):
            Endpoint(server.address)
        server.spoil = lambda path, answer: b"<html>"
        with pytest.raises(EndpointError, match="no JSON object"):
            Endpoint(server.address)
        server.statuses = [404]
        with pytest.raises(EndpointError, match="without a list of models name one"):
            Endpoint(server.address)
        server.statuses = [404]
        assert Endpoint(f"{server.address}#own").name == "own"


def test_the_same_model_elsewhere_has_the_same_recordings(served_at):
    (one, first), (two, second) = served_at(), served_at()
    assert one.address != two.address and first.fingerprint == second.fingerprint


def test_a_key_is_sent_and_nowhere_else(served_at, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "other-key")
    monkeypatch.setenv("RAG_COMPANION_API_KEY", "sk-quite-secret\n")
    server, reader = served_at()
    reader.generate(["a"])
    assert server.asked[-1][2]["Authorization"] == "Bearer sk-quite-secret"
    said = [repr(reader), str(vars(reader))]
    for status in (401, 400, 500):
        server.statuses = [status] * 6
        with pytest.raises(EndpointError) as caught:
            reader.generate([f"{status}"])
        server.statuses = []
        said.append(f"{caught.value!r} {caught.value} {caught.value.__cause__!r}")
        assert "***" in str(caught.value)
    assert "set RAG_COMPANION_API_KEY in the environment" in said[2]
    said += [path.read_bytes().decode(errors="replace") for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not any("sk-quite-secret" in text for text in said)
    monkeypatch.setenv("RAG_COMPANION_API_KEY", "ключ")
    with pytest.raises(ValueError, match="RAG_COMPANION_API_KEY must be a key of ASCII letters") as caught:
        reader.generate(["b"])
    assert "ключ" not in str(caught.value)


def test_a_reader_is_a_profile_a_folder_or_an_address(folder, served_at, monkeypatch, tmp_path):
    server, _ = served_at()
    assert isinstance(load_reader(server.address), Endpoint)
    assert load_reader(folder, mode="fresh", dtype="bfloat16").fingerprint.endswith("-bfloat16")
    wrong = {
        "embeded": "did you mean 'embedded'",
        "localhost:8000": "begins with http:// or https://",
        "127.0.0.1:8000/v1": "begins with http:// or https://",
        "htp://host": "must be http://HOST:PORT",
        str(tmp_path / "no"): "/no is not there",
    }
    for name, said in wrong.items():
        with pytest.raises(ValueError, match=said):
            load_reader(name)
    with pytest.raises(ValueError, match="the server's choice"):
        load_reader(server.address, dtype="float16")


def test_an_adapter_can_be_chosen(folder, tmp_path):
    import peft
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    low = peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    peft.get_peft_model(model, low).save_pretrained(tmp_path / "low")
    with_it, without = load_reader(folder, adapter=tmp_path / "low", mode="fresh"), load_reader(folder, mode="fresh")
    assert with_it.fingerprint.startswith(without.fingerprint + "+") and with_it.name == f"{without.name} with adapter"
    assert (with_it.log_likelihood(["a"], [" b"])[0] != without.log_likelihood(["a"], [" b"])[0]).any()
