"""The model layer: equal to plain transformers, the same whatever the batch, honest about likelihoods, recorded."""

import gc
import itertools
import json
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tiny
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_utils import data, lm
from rag_utils import prompts as templates
from rag_utils.engine import decode, profiles, recordings, segments, texts, weights
from rag_utils.engine.attention import KEYS
from rag_utils.engine.past import Branches
from rag_utils.engine.recordings import RecordingError
from rag_utils.engine.tree import batches, prefix_tree, size

PROMPTS = ["a", "the quick brown fox", "why?", "another prompt, a little longer than the rest", "why not?"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Recordings of a test go to its own folder; what was converted once stays where it is."""
    monkeypatch.setattr(recordings, "TRACKED", tmp_path / "recordings")
    monkeypatch.setattr(recordings, "cache_dir", lambda *parts: tmp_path.joinpath("cache", *parts))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return tiny.llama(tmp_path_factory.mktemp("llama"), batch_tokens=100)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return tiny.t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def reader(llama):
    return lm.LanguageModel(weights.load(llama), llama, mode="fresh")


@pytest.fixture(scope="module")
def sliding(tmp_path_factory):
    profile = tiny.mistral(tmp_path_factory.mktemp("mistral"))
    return lm.LanguageModel(weights.load(profile), profile, mode="fresh")


@pytest.fixture(scope="module")
def fusion(t5):
    return lm.LanguageModel(weights.load(t5), t5, mode="fresh")


def forward_log_likelihood(reader, prompt, tokens):
    """Straight from the definition: one unpadded pass, log-softmax, pick the tokens."""
    model, tokenizer = reader.model, reader.tokenizer
    ids = tokenizer(prompt).input_ids
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            start = [model.config.decoder_start_token_id, *tokens[:-1]]
            logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([start])).logits[0]
        else:
            logits = model(input_ids=torch.tensor([[*ids, *tokens]])).logits[0, len(ids) - 1 : -1]
    return torch.log_softmax(logits, -1)[range(len(tokens)), tokens].numpy()


def samples_key(groups):
    return [[(one.token_ids, one.text) for one in group] for group in groups]


def bits(groups):
    return [[(one.token_ids, one.token_log_likelihood.tolist()) for one in group] for group in groups]


@pytest.mark.parametrize("which", ["reader", "sliding", "fusion"])
def test_greedy_equals_transformers_generate(which, request):
    reader = request.getfixturevalue(which)
    ours = reader.generate(PROMPTS, max_new_tokens=12, stop=())
    for prompt, [reply] in zip(PROMPTS, ours, strict=True):
        ids = reader.tokenizer(prompt, return_tensors="pt").input_ids
        theirs = reader.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=12,
            min_new_tokens=12,
            eos_token_id=-1,
        )[0]
        start = 1 if reader.model.config.is_encoder_decoder else ids.shape[1]
        assert list(reply.token_ids) == theirs[start:].tolist()
        assert len(reply.token_ids) == 12


@pytest.mark.parametrize("which", ["reader", "sliding", "fusion"])
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_a_reply_carries_the_raw_log_likelihood_whatever_the_temperature(which, temperature, request):
    reader = request.getfixturevalue(which)
    for prompt, group in zip(
        PROMPTS, reader.generate(PROMPTS, n=3, temperature=temperature, max_new_tokens=8, stop=()), strict=True
    ):
        for reply in group:
            expected = forward_log_likelihood(reader, prompt, list(reply.token_ids))
            assert reply.token_log_likelihood == pytest.approx(expected, abs=1e-4)


def test_a_warped_distribution_would_be_noticed(reader):
    """The authors' code of SePer reads scores after the temperature: that is another number."""
    [[reply]] = reader.generate(["the quick"], n=1, temperature=0.5, max_new_tokens=8, stop=())
    ids = reader.tokenizer("the quick").input_ids
    with torch.inference_mode():
        logits = reader.model(input_ids=torch.tensor([[*ids, *reply.token_ids]])).logits[0, len(ids) - 1 : -1]
    warped = torch.log_softmax(logits / 0.5, -1)[range(8), list(reply.token_ids)].numpy()
    assert np.abs(warped - reply.token_log_likelihood).max() > 0.1


@pytest.mark.parametrize("which", ["reader", "sliding", "fusion"])
def test_log_likelihood_equals_an_unpadded_pass(which, request):
    reader = request.getfixturevalue(which)
    continuations = [" one", " two words", "!", " x", " something else"]
    for prompt, text, values in zip(PROMPTS, continuations, reader.log_likelihood(PROMPTS, continuations), strict=True):
        tokens = reader.tokenizer(text, add_special_tokens=reader.model.config.is_encoder_decoder).input_ids
        assert values == pytest.approx(forward_log_likelihood(reader, prompt, tokens), abs=1e-4)
        assert (values <= 0).all()


def test_scoring_a_reply_gives_the_likelihood_it_was_drawn_with(reader):
    groups = reader.generate(PROMPTS, n=2, temperature=1.0, max_new_tokens=6, stop=(" ",))
    for prompt, group in zip(PROMPTS, groups, strict=True):
        for reply in group:
            if reply.text and reader.tokenizer(reply.text).input_ids == list(reply.token_ids):
                assert reader.log_likelihood([prompt], [reply.text])[0] == pytest.approx(
                    reply.token_log_likelihood, abs=2e-5
                )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(PROMPTS))), size=st.integers(1, len(PROMPTS)), budget=st.integers(20, 2000))
@pytest.mark.parametrize("which", ["reader", "sliding", "fusion"])
def test_a_sample_depends_on_its_prompt_seed_and_index_only(which, order, size, budget, request):
    reader = request.getfixturevalue(which)
    whole = reader.generate(PROMPTS, n=4, temperature=1.0, max_new_tokens=6, seed=3)
    profile = reader.profile.model_copy(update={"batch_tokens": budget})
    other = lm.LanguageModel(weights.Loaded(lambda part: getattr(reader, part), "x", "x", None), profile, mode="fresh")
    chosen = [PROMPTS[i] for i in order[:size]]
    part = other.generate(chosen, n=2, temperature=1.0, max_new_tokens=6, seed=3)
    expected = [whole[i][:2] for i in order[:size]]
    assert samples_key(part) == samples_key(expected)
    if which == "reader":  # not only the samples: every likelihood, to the last bit
        assert bits(part) == bits(expected)
    assert (
        samples_key(other.generate(chosen, n=2, temperature=1.0, max_new_tokens=6, seed=4)) != samples_key(part)
        or size < 3
    )


@pytest.mark.parametrize("which", ["reader", "sliding", "fusion"])
def test_the_likeliest_reply_may_be_asked_with_the_samples(which, request):
    reader, how = request.getfixturevalue(which), {"n": 3, "temperature": 0.7, "max_new_tokens": 6, "seed": 3}
    both = reader.generate(PROMPTS[:2], **how, greedy=True)
    apart = zip(reader.generate(PROMPTS[:2], **how), reader.generate(PROMPTS[:2], max_new_tokens=6), strict=True)
    assert samples_key(both) == samples_key(expected := [[*drawn, *likeliest] for drawn, likeliest in apart])
    if which == "reader":
        assert bits(both) == bits(expected)
    assert samples_key(reader.generate(PROMPTS[:1], max_new_tokens=6, greedy=True)) == samples_key([[expected[0][-1]] * 2])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_embedded_reader_draws_the_same_in_any_company(dtype):
    """Real weights and real prompts: what differs in the last bit changes one sample in a hundred."""
    if dtype == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor has no products of bfloat16")
    profile = profiles.get("embedded").model_copy(update={"dtype": dtype})
    loaded = weights.load(profile)

    def replies(prompts, n, budget):
        model = lm.LanguageModel(loaded, profile.model_copy(update={"batch_tokens": budget}), mode="fresh")
        return model.generate(prompts, n=n, temperature=1.0, max_new_tokens=8, seed=5)

    read = templates.load("read_plain")
    asked = [read.fill(question=one.text, documents=[one.gold[0].text]) for one in data.load("companion")[:5]]
    together = replies(asked, 4, 16384)
    for budget, order, n in [(16384, [3], 4), (300, [2, 4, 0], 2), (900, [1, 3, 4], 1)]:
        alone = replies([asked[i] for i in order], n, budget)
        assert bits(alone) == bits([together[i][:n] for i in order])


def test_samples_follow_the_distribution(reader):
    """First tokens of 4000 samples against the softmax, by chi-square; a distribution at another temperature fails it."""
    from scipy.stats import chisquare

    [group] = reader.generate(["the "], n=4000, temperature=1.0, max_new_tokens=1, stop=())
    counts = np.bincount([reply.token_ids[0] for reply in group], minlength=tiny.SIZE)
    with torch.inference_mode():
        logits = reader.model(input_ids=torch.tensor([reader.tokenizer("the ").input_ids])).logits[0, -1].double()

    def p_value(temperature):
        expected = torch.softmax(logits / temperature, -1).numpy() * counts.sum()
        many = expected >= 5
        observed = np.append(counts[many], counts[~many].sum())
        return chisquare(
            observed, np.append(expected[many], expected[~many].sum()) * observed.sum() / expected.sum()
        ).pvalue

    assert p_value(1.0) > 0.001
    assert p_value(0.8) < 1e-6


LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")


def test_stop_strings_and_what_is_counted(reader):
    [group] = reader.generate(["the quick"], n=400, temperature=1.0, max_new_tokens=6, stop=LETTERS)
    assert not any(letter in reply.text for reply in group for letter in LETTERS)
    assert all(len(reply.token_ids) == len(reply.token_log_likelihood) for reply in group)
    whole = [reply for reply in group if reply.text and not {"\ufffd", "<"} & set(reply.text)]
    assert len(whole) > 5  # one byte a token: the stop is not counted
    assert all(len(reply.text.encode()) == len(reply.token_ids) for reply in whole)


def test_an_empty_reply_carries_the_token_that_ended_it(reader):
    groups = reader.generate(["the quick"], n=60, temperature=1.5, max_new_tokens=6, stop=LETTERS)
    empty = [reply for reply in groups[0] if not reply.text]
    assert empty and all(len(reply.token_log_likelihood) == 1 for reply in empty)


def test_greedy_is_computed_once_and_returned_n_times(reader):
    before = reader.count.computed
    [group] = reader.generate(["only once"], n=5, max_new_tokens=4, stop=())
    assert len(group) == 5 and len({reply.text for reply in group}) == 1
    assert (
        reader.count.computed - before == len(reader.tokenizer("only once").input_ids) + 3
    )  # the last token is not read


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.generate("one string"), "prompts must be a list; got str; write .prompts."),
        (lambda r: r.generate([]), "at least 1; got none"),
        (lambda r: r.generate(["a"], n=0), "n must be .*at least 1; got 0"),
        (lambda r: r.generate(["a"], n=1.5), "n must be"),
        (lambda r: r.generate(["a"], temperature=-1), "temperature"),
        (lambda r: r.generate(["a"], temperature=float("nan")), "temperature"),
        (lambda r: r.generate(["a"], max_new_tokens=0), "max_new_tokens"),
        (lambda r: r.generate(["a"], stop="\n"), "stop must be a list"),
        (lambda r: r.generate(["a"], stop=("",)), "non-empty"),
        (lambda r: r.generate([""]), "at least one token"),
        (lambda r: r.generate(["a", None]), r"prompts\[1\]"),
        (lambda r: r.generate(["a" * 250]), "needs 282 tokens .* holds 256"),
        (lambda r: r.log_likelihood(["a"], ["b", "c"]), "1 contexts, 2 continuations"),
        (lambda r: r.log_likelihood(["a"], [""]), "non-empty"),
        (lambda r: r.chat("hello"), "no chat template"),
        (lambda r: r.generate(["a"], temperature=10**400), "temperature must be one finite number"),
        (lambda r: r.generate(["a"], seed=2**64), "seed must be .*from 0"),
        (lambda r: r.generate(None), "prompts must be a list; got NoneType"),
        (lambda r: r.log_likelihood("a", "b"), "contexts must be a list; got str"),
        (lambda r: r.encode(None), "text must be a string; got NoneType"),
        (lambda r: r.live_check(0), "k must be"),
        (lambda r: r.live_check(1, seed=-1), "seed must be"),
    ],
)
def test_bad_input_says_what_came_and_what_was_wanted(reader, call, words):
    with pytest.raises(ValueError, match=words):
        call(reader)


@pytest.mark.parametrize(
    ("likelihoods", "words"),
    [([0.5], "be at most 0; got 0.5: is the sign right"), ([np.nan], "be finite"), ([], "hold at least 1 number")],
)
def test_a_reply_of_ones_own_has_logarithms_of_likelihoods(likelihoods, words):
    with pytest.raises(ValueError, match=f"token_log_likelihood must {words}"):
        lm.Generation(" Paris", (1,), np.array(likelihoods))


def test_an_empty_context_is_the_begin_token(reader):
    [values] = reader.log_likelihood([""], ["ab"])
    tokens = reader.tokenizer("ab").input_ids
    with torch.inference_mode():
        logits = reader.model(input_ids=torch.tensor([[1, *tokens]])).logits[0, :-1]
    assert values == pytest.approx(torch.log_softmax(logits, -1)[range(2), tokens].numpy(), abs=1e-4)


def test_what_is_shared_is_read_once(reader):
    """Six contexts that differ in one of five chunks, as DENSE asks them: the count is that of the tree, not of the texts."""
    chunks = [f"chunk number {i} of the text. " for i in range(5)]
    contexts = ["".join(chunks)] + ["".join([*chunks[:i], "edited. ", *chunks[i + 1 :]]) for i in range(5)]
    before, whole = reader.count.computed, sum(len(reader.tokenizer(context).input_ids) for context in contexts)
    values = reader.log_likelihood(contexts, [" a reply"] * 6)
    computed = reader.count.computed - before
    distinct = size(prefix_tree([reader.tokenizer(context + " a reply").input_ids[:-1] for context in contexts]))
    assert distinct <= computed <= 1.05 * distinct < 0.75 * whole
    for context, found in zip(contexts, values, strict=True):
        tokens = reader.tokenizer(" a reply").input_ids
        assert found == pytest.approx(forward_log_likelihood(reader, context, tokens), abs=1e-4)


def test_a_token_after_which_nothing_is_scored_is_not_read(reader):
    """Two words that may follow one text, as a judge asks: the text is read once, and neither word. Nor is one that follows nothing."""
    before, text = reader.count.computed, "is it so?"
    both = reader.log_likelihood([text, text, ""], ["y", "n", "n"])
    assert reader.count.computed - before == len(reader.tokenizer(text).input_ids) + 1
    assert both[:2] == [pytest.approx(forward_log_likelihood(reader, text, reader.tokenizer(word).input_ids), abs=1e-4) for word in "yn"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(
        st.tuples(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=5)), min_size=1, max_size=12
    ),
    budget=st.integers(5, 300),
)
@pytest.mark.parametrize("which", ["reader", "sliding"])
def test_scores_of_any_tree_equal_an_unpadded_pass(which, texts, budget, request):
    reader = request.getfixturevalue(which)
    profile = reader.profile.model_copy(update={"batch_tokens": budget})
    other = lm.LanguageModel(weights.Loaded(lambda part: getattr(reader, part), "x", "x", None), profile, mode="fresh")
    contexts, continuations = (["c" + text for text, _ in texts], [text for _, text in texts])
    for context, text, found in zip(
        contexts, continuations, other.log_likelihood(contexts, continuations), strict=True
    ):
        assert found == pytest.approx(
            forward_log_likelihood(reader, context, reader.tokenizer(text).input_ids), abs=1e-4
        )


def test_models_that_cannot_share_say_so(reader, sliding, fusion):
    assert [decode.shares_prefixes(one.model) for one in (reader, sliding, fusion)] == [True, False, False]
    assert sliding.count.computed == sliding.count.distinct


def test_many_samples_of_short_prompts_stay_within_the_budget(llama):
    profile = llama.model_copy(update={"batch_tokens": 2048})
    reader = lm.LanguageModel(weights.load(llama), profile, mode="fresh")
    rows = []
    shapes = reader.model.register_forward_pre_hook(
        lambda *called: rows.append(called[2]["input_ids"].shape), with_kwargs=True
    )
    reader.generate([f"{i} is short" for i in range(100)], n=20, temperature=1.0, max_new_tokens=2, seed=0)
    shapes.remove()
    growing = [count for count, width in rows if width == 1]  # one token of each reply; prompts are read packed
    assert 20 < max(growing) <= 2048 / KEYS


def test_a_long_text_does_not_make_room_of_its_length_for_every_short_one(llama, monkeypatch):
    """Joined texts are padded to the longest: what is joined fits into the budget, padding and all."""
    long, short, sizes, join = 10 * "the quick brown fox ", [f"{i} is short" for i in range(60)], [], Branches.join

    def noted(self, other):
        join(self, other)
        sizes.append(len(self.known) * self.texts.shape[4])
        return self

    monkeypatch.setattr(Branches, "join", noted)
    reader = lm.LanguageModel(weights.load(llama), llama.model_copy(update={"batch_tokens": 1024}), mode="fresh")
    reader.generate([long, *short], max_new_tokens=12, stop=())
    assert sizes and max(sizes) <= 1024 and len(reader.encode(long)) > 190


@torch.inference_mode()
def test_replies_that_join_a_long_one_go_on_when_it_has_ended(reader):
    def read(text):
        return segments.read(reader.model, [reader.encode(text)], [None], [1], [True])[1]

    grown, token = Branches(read("the quick brown fox"), [1]), torch.tensor([5])
    for _ in range(KEYS + 1):
        grown.step(reader.model, token)
    grown.join(Branches(read("why not?"), [2])).keep(torch.tensor([1, 2]))
    alone, tokens = Branches(read("why not?"), [2]), torch.tensor([7, 8])
    assert torch.equal(grown.step(reader.model, tokens), alone.step(reader.model, tokens))


def test_where_memory_runs_out_what_is_left_goes_on_with_half_the_budget(llama, monkeypatch):
    whole, budgets = lm.LanguageModel(weights.load(llama), llama, mode="fresh"), []

    def short(compute):
        def computed(*given, batch_tokens, **options):
            budgets.append(batch_tokens)
            for number, batch in enumerate(compute(*given, batch_tokens=batch_tokens, **options)):
                if number == 1 and batch_tokens > 30:
                    raise torch.OutOfMemoryError
                yield batch

        return computed

    how = {"n": 2, "temperature": 1.0, "max_new_tokens": 6, "stop": ()}
    expected = bits(whole.generate(PROMPTS, **how)), whole.log_likelihood(PROMPTS, [" x y"] * len(PROMPTS))
    monkeypatch.setattr(decode, "sample", short(decode.sample))
    monkeypatch.setattr(decode, "score", short(decode.score))
    with pytest.warns(UserWarning, match="memory ran out; 4 calls go on with batch_tokens=50"):
        assert bits(whole.generate(PROMPTS, **how)) == expected[0]
        found = whole.log_likelihood(PROMPTS, [" x y"] * len(PROMPTS))
    assert all(map(np.array_equal, found, expected[1])) and budgets[:2] == [100, 50]
    monkeypatch.setattr(decode, "score", lambda *_, **__: _no_memory())
    with pytest.warns(UserWarning), pytest.raises(torch.OutOfMemoryError):
        whole.log_likelihood(["a"], [" x"])


def _no_memory():
    raise torch.OutOfMemoryError
    yield


@pytest.mark.parametrize("stop", [("\n",), ("ab", "x y"), (" ",), ("é",), ("a", "é")])
def test_where_a_reply_ends_is_seen_without_a_look_at_every_reply(stop):
    """A token that has no last letter of a stop string completes none; a decoder that strips a space, or cuts a letter, is not trusted."""
    pieces, looked = ["a", "b", " ab", "x", " y", "\n", "x y", "c\n\nd", "é"], []

    def decode_(tokens):
        looked.append(len(tokens))
        text = "".join(pieces[token] for token in tokens)
        return text.lstrip(" ") if len(tokens) == 1 and tokens[0] < 8 else text.replace("é", "?") if len(tokens) == 1 else text

    finished = texts._ending(stop, {99}, decode_)
    for tokens in itertools.product(range(len(pieces)), repeat=3):
        said = ["".join(pieces[token] for token in tokens[:n]) for n in (1, 2, 3)]
        first = next((n for n, text in enumerate(said, 1) if any(end in text for end in stop)), 3)
        if first == 3:  # as in a run, which goes on only while no reply has ended
            assert finished([*tokens]) == any(end in said[-1] for end in stop)
    assert finished([0, 99]) and not texts._ending((), {99}, decode_)([0, 99])
    if stop == ("\n",):
        assert looked.count(3) < len(pieces) ** 3 / 3


def test_batches_hold_every_row_once_within_the_budget():
    lengths = [3, 50, 7, 7, 12, 1]
    found = list(batches(lengths, 40))
    assert sorted(i for batch in found for i in batch) == list(range(6))
    assert found[0] == [1]  # longer than the budget: alone
    narrow = batches([50, 50, 50, 9, 9, 8], 10**6, enough=100)
    assert list(narrow) == [[0, 1, 2], [3, 4, 5]]  # little padding


def test_live_then_replay_gives_the_same(llama, tmp_path):
    calls = {"n": 3, "temperature": 1.0, "max_new_tokens": 6}
    live = lm.load(llama, mode="live", chapter="c")
    first = live.generate(PROMPTS, **calls)
    scores = live.log_likelihood(PROMPTS, [" x"] * 5)
    live.close()
    replay = lm.load(llama, mode="replay", chapter="c")
    assert samples_key(replay.generate(PROMPTS, **calls)) == samples_key(first)
    for a, b in zip(replay.generate(PROMPTS, **calls), first, strict=True):
        assert all((x.token_log_likelihood == y.token_log_likelihood).all() for x, y in zip(a, b, strict=True))
    assert all((a == b).all() for a, b in zip(replay.log_likelihood(PROMPTS, [" x"] * 5), scores, strict=True))
    assert replay.count.computed == 0
    assert str(replay.live_check(100)).startswith("20 of 20 recorded calls computed again")
    assert b"quick brown" not in (tmp_path / "cache/recordings/calls.sqlite").read_bytes()  # no prompt is stored
    assert not (tmp_path / "recordings").exists()  # and nothing in a tracked file


def test_more_samples_later_compute_only_the_new_ones(llama):
    live = lm.load(llama, mode="live", chapter="c")
    few = live.generate(["why?"], n=2, temperature=1.0, max_new_tokens=4, stop=())
    before = live.count.computed
    many = live.generate(["why?"], n=5, temperature=1.0, max_new_tokens=4, stop=())
    assert samples_key([many[0][:2]]) == samples_key(few)
    assert live.count.computed - before == len(live.tokenizer("why?").input_ids) + 3 * 3


def test_a_prompt_is_read_once_for_its_samples_and_its_likeliest_reply(llama):
    live, how = lm.load(llama, mode="live", chapter="c"), {"max_new_tokens": 4, "stop": ()}
    both = live.generate(["why?"], n=2, temperature=1.0, greedy=True, **how)
    assert (computed := live.count.computed) == len(live.tokenizer("why?").input_ids) + 3 * 3
    assert samples_key(live.generate(["why?"], **how)) == samples_key([both[0][2:]])  # recorded as if it had been asked alone
    assert samples_key(live.generate(["why?"], n=2, temperature=1.0, **how)) == samples_key([both[0][:2]])
    assert live.count.computed == computed and str(live.live_check(9)).startswith("3 of 3 ")


def test_replay_names_count_chapter_and_command(llama):
    replay = lm.load(llama, chapter="05_x")
    with pytest.raises(
        RecordingError, match=r"3 of 3 model calls .* for chapter 05_x; `rag-companion run 05_x --mode live` records"
    ):
        replay.generate(["a", "b", "c"])


def test_fresh_neither_reads_nor_writes(llama, tmp_path):
    lm.load(llama, mode="fresh", chapter="c").generate(["a"])
    assert not (tmp_path / "recordings").exists() and not (tmp_path / "cache").exists()


def test_replay_after_live_in_every_order_of_chapters(llama):
    """Several models are live at once, with and without a chapter, and none is closed."""
    first, second = lm.load(llama, mode="live"), lm.load(llama, mode="live", chapter="c")
    said = [first.generate(["a"]), second.generate(["b"])]
    for chapter in (None, "c", "d"):
        replay = lm.load(llama, chapter=chapter)
        assert bits(replay.generate(["a", "b"])) == bits([*said[0], *said[1]]) and replay.count.computed == 0
    assert bits(second.generate(["a"])) == bits(said[0]) and second.count.computed == first.count.computed


def test_a_call_is_sealed_only_if_a_model_with_the_chapter_answered_it(llama, tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_COMPANION_TRACE", str(tmp_path / "trace"))
    reader, outside = lm.load(llama, mode="live", chapter="c"), lm.load(llama, mode="live")
    reader.generate(PROMPTS, n=2, temperature=1.0, max_new_tokens=3)
    reader.generate(PROMPTS[:1], n=2, temperature=1.0, max_new_tokens=3)
    outside.generate(["seen in a benchmark"])
    keys = recordings.traced(tmp_path / "trace", "c", fingerprints={reader.fingerprint})
    assert len(keys) == 10 and not recordings.traced(tmp_path / "trace", "d", fingerprints={reader.fingerprint})
    assert recordings.traced(tmp_path / "trace", "c") == set()  # not one of the embedded readers
    path = recordings.seal("c", keys)
    assert json.loads(path.read_text().splitlines()[0])["replies"] == 10
    (tmp_path / "cache/recordings/calls.sqlite").unlink()
    replay = lm.load(llama, chapter="c")
    assert len(replay.generate(PROMPTS, n=2, temperature=1.0, max_new_tokens=3)) == len(PROMPTS)
    with pytest.raises(RecordingError, match="1 of 1 model calls"):
        replay.generate(["seen in a benchmark"])


def test_live_check_fails_when_the_model_says_something_else(llama, tmp_path):
    live = lm.load(llama, mode="live", chapter="c")
    live.generate(PROMPTS, n=2, temperature=1.0, max_new_tokens=4)
    live.close()
    replay = lm.load(llama, chapter="c")
    replay.generate(PROMPTS, n=2, temperature=1.0, max_new_tokens=4)
    with torch.no_grad():
        replay.model.lm_head.weight.mul_(1.05)
    with pytest.raises(RecordingError, match="no longer what"):
        replay.live_check(50)


@pytest.mark.parametrize(("dtype", "off", "passes"), [("float32", 0.1, False), ("bfloat16", 0.1, True), ("bfloat16", 0.3, False)])
def test_live_check_leaves_16_bit_numbers_room_for_their_rounding(llama, dtype, off, passes):
    reader = lm.load(llama, mode="fresh", dtype=dtype)
    reader.generate(PROMPTS, n=2, temperature=1.0, max_new_tokens=4)
    for *_, reply in reader._calls.answered.values():
        reply["log_likelihood"] = [value - off for value in reply["log_likelihood"]]
    if passes:
        assert str(reader.live_check(50)).endswith("within 0.25 nat each.")
        return
    with pytest.raises(RecordingError, match="allowed 0.25" if dtype == "bfloat16" else "allowed 0.02"):
        reader.live_check(50)


def test_live_check_fails_when_a_greedy_reply_was_not_the_likeliest(llama, tmp_path):
    live = lm.load(llama, mode="live", chapter="c")
    live.generate(["why?"], max_new_tokens=3, stop=())
    live.close()
    key = next(iter(live._calls.answered))
    second = int(np.argsort(-forward_all(live, "why?")[-1])[1])
    value = forward_log_likelihood(live, "why?", [second])
    (tmp_path / "cache/recordings/calls.sqlite").unlink()
    reply = {"text": "?", "tokens": [second], "log_likelihood": [float(value[0])]}
    recordings.Recordings(writable=True).add([(key, reply)])
    replay = lm.load(llama, chapter="c")
    replay.generate(["why?"], max_new_tokens=3, stop=())
    with pytest.raises(RecordingError, match="no longer what"):
        replay.live_check()


def forward_all(reader, prompt):
    with torch.inference_mode():
        return reader.model(input_ids=torch.tensor([reader.tokenizer(prompt).input_ids])).logits[0].numpy()


def test_two_readers_of_the_same_weights_hold_them_once(tmp_path):
    profile = tiny.llama(tmp_path / "model")
    first, again = (lm.load(profile, mode="fresh") for _ in range(2))
    assert first.model is again.model
    assert lm.load(profile, mode="fresh", dtype="bfloat16").model is not first.model

    with ThreadPoolExecutor() as pool:  # a pass changes the model for its time
        assert pool.submit(lambda: lm.load(profile, mode="fresh").model).result() is not first.model
    assert weights.load(profile).model is not first.model  # which is for those that train it

    last = weakref.ref(first.model)
    del first, again
    gc.collect()
    assert last() is None


def test_weights_that_changed_are_read_again(tmp_path):
    profile = tiny.llama(tmp_path / "model")
    first = lm.load(profile, mode="fresh")
    tiny.llama(tmp_path / "model", seed=1)
    again = lm.load(profile, mode="fresh")
    assert again.fingerprint != first.fingerprint
    assert not torch.equal(again.model.lm_head.weight, first.model.lm_head.weight)


def test_other_weights_have_another_key(tmp_path, llama):
    other = tiny.llama(tmp_path / "other", seed=1)
    assert weights.load(llama).fingerprint != weights.load(other).fingerprint


def test_a_deberta_judge_loads_with_its_own_label_order(tmp_path):
    profile = tiny.deberta(tmp_path / "deberta")
    loaded = weights.load(profile, task="nli")
    pair = loaded.tokenizer("who? he", "who? she", return_tensors="pt")
    with torch.inference_mode():
        logits = loaded.model(input_ids=pair.input_ids, attention_mask=pair.attention_mask).logits
    assert logits.shape == (1, 3) and torch.isfinite(logits).all()
    assert loaded.model.config.id2label[0] == "ENTAILMENT"


def test_a_hub_profile_without_the_hub_is_one_clear_sentence(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names = ["laptop", "workstation", "paper"]
    code = f"""
from rag_utils import lm
for name in {names}:
    try:
        lm.load(name, revision="v9")
    except Exception as error:
        print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    for name, said in zip(names, done.stdout.splitlines(), strict=True):
        assert said.startswith("WeightsError")
        assert profiles.PROFILES[name].reader in said and "revision v9" in said and "embedded" in said


def test_unknown_names_come_with_near_ones(llama):
    with pytest.raises(ValueError, match="did you mean 'laptop'"):
        lm.load("labtop")
    with pytest.raises(ValueError, match="unknown mode 'repaly'; did you mean 'replay'"):
        lm.load(llama, mode="repaly")
    with pytest.raises(weights.WeightsError, match="no entailment model"):
        weights.load(llama, task="nli")


def test_a_pickled_model_is_refused(tmp_path, llama):
    from pathlib import Path
    from shutil import copytree

    folder = tmp_path / "pickled"
    copytree(Path(llama.reader), folder)
    torch.save(weights.load(llama).model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(weights.WeightsError, match="cannot be read"):
        weights.load(llama.model_copy(update={"reader": str(folder)}))


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["generate", "log_likelihood"])
def test_thousands_of_calls_run_in_the_memory_of_two_hundred(tmp_path, operation):
    """In a process of its own; keys and values of all texts at once would take 650 MB."""
    shape = {"hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 8, "num_key_value_heads": 4}
    tiny.llama(tmp_path / "model", spread=0.1, shape=shape)
    code = (
        "import resource, sys, torch\n"
        "from rag_utils import lm\n"
        "from rag_utils.engine.profiles import Profile\n"
        f"reader = lm.load(Profile(name='tiny', reader={str(tmp_path / 'model')!r}, batch_tokens=4096), mode='fresh')\n"
        "for calls in (200, 2500):\n"
        "    texts = [f'{i * 7919 % 10007:05d} and a question after it' for i in range(calls)]\n"
        "    if sys.argv[1] == 'generate': reader.generate(texts, max_new_tokens=2)\n"
        "    else: reader.log_likelihood(texts, [' yes'] * len(texts))\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, operation], capture_output=True, text=True, check=True)
    few, many = map(int, done.stdout.split())
    assert many - few < 150, (few, many)  # MB: the texts, their tree and the replies
