"""Fusion-in-Decoder on a small random T5: equal to T5 for one passage, blind to order and padding, trained by the paper's recipe."""

import dataclasses
import itertools

import fusion_in_decoder as fid
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import processors

from rag_utils.engine import weights

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "gorse", "heron"]
QUESTIONS = [
    ["question: who? context: amber", "question: who? context: the birch is older than the others", "question: who?"],
    ["question: where? context: a fjord", "question: where? context: at home"],
]
ANSWERS = ["a birch", "by the fjord, at home"]
EXAMPLES = [
    (
        [f"question: which {i}? context: {WORDS[i % 8]}", f"question: which {i}? context: no {WORDS[-i % 8]}"],
        WORDS[i % 8],
    )
    for i in range(10)
]
FAST = fid.Recipe(epochs=2, batch=4, learning_rate=1e-2)
repeatable = settings(deadline=None, derandomize=True, max_examples=15)


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tiny.t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def tokenizer():
    return tiny.tokenizer()


@pytest.fixture(scope="module")
def untouched(profile):
    """A model that no test trains."""
    return weights.load(profile).model


@pytest.fixture
def model(profile):
    """The same weights, to be trained."""
    return weights.load(profile).model


def without_dropout(model):
    for part in model.modules():
        if isinstance(getattr(part, "dropout", None), float):
            part.dropout = 0.0  # of the attention
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return model


def ids(tokenizer, text):
    return torch.tensor([tokenizer(text).input_ids])


def logits(model, tokenizer, inputs, start=(0, 7, 8, 9)):
    """What the decoder says after fixed tokens, (questions, tokens, vocabulary)."""
    with torch.inference_mode():
        states, mask = fid.encode(model, tokenizer, inputs)
        fixed = torch.tensor([start] * len(inputs))
        return model(encoder_outputs=(states,), attention_mask=mask, decoder_input_ids=fixed).logits


def differences(left, right):
    return (left - right).abs().max().item()


# --- encoding and fusing -------------------------------------------------------------------------


def test_one_passage_is_plain_t5(untouched, tokenizer):
    prompts = [text for texts in QUESTIONS for text in texts]
    found = logits(untouched, tokenizer, [[prompt] for prompt in prompts])
    for prompt, row in zip(prompts, found, strict=True):
        with torch.inference_mode():
            fixed = torch.tensor([[0, 7, 8, 9]])
            wanted = untouched(input_ids=ids(tokenizer, prompt), decoder_input_ids=fixed).logits[0]
        assert differences(row, wanted) < 1e-4


def test_one_passage_is_answered_as_plain_t5_does(untouched, tokenizer):
    prompts = [text for texts in QUESTIONS for text in texts]
    replies = fid.generate(untouched, tokenizer, [[prompt] for prompt in prompts], max_new_tokens=12, micro_batch=3)
    for prompt, reply in zip(prompts, replies, strict=True):
        tokens = untouched.generate(ids(tokenizer, prompt), do_sample=False, max_new_tokens=12)[0]
        assert reply == tokenizer.decode(tokens, skip_special_tokens=True)
    assert len(set(replies)) > 1


def test_one_passage_has_the_loss_of_plain_t5(untouched, tokenizer):
    prompts = [texts[0] for texts in QUESTIONS]
    found = fid.loss(untouched, tokenizer, [[prompt] for prompt in prompts], ANSWERS).item()
    surprises = []
    for prompt, answer in zip(prompts, ANSWERS, strict=True):
        target = torch.tensor([*tokenizer(answer).input_ids, tokenizer.eos_token_id])
        start = torch.cat([torch.tensor([0]), target[:-1]])[None]
        with torch.inference_mode():
            said = untouched(input_ids=ids(tokenizer, prompt), decoder_input_ids=start).logits[0].log_softmax(-1)
        surprises.append(-said[range(len(target)), target])
    assert found == pytest.approx(torch.cat(surprises).mean().item(), abs=1e-4)
    means = torch.stack([one.mean() for one in surprises])
    assert abs(found - means.mean().item()) > 1e-3  # the mean of the answers' means is something else


def test_an_end_token_that_the_tokenizer_adds_stands_once():
    ending = tiny.tokenizer()
    ending.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <eos>", special_tokens=[("<eos>", 2)]
    )
    assert fid._targets(ending, ANSWERS) == fid._targets(tiny.tokenizer(), ANSWERS)
    assert [tokens.count(2) for tokens in fid._targets(ending, ANSWERS)] == [1, 1]


def test_passages_are_read_apart_and_attended_together(untouched, tokenizer):
    found = logits(untouched, tokenizer, QUESTIONS)
    for texts, row in zip(QUESTIONS, found, strict=True):
        with torch.inference_mode():
            apart = [untouched.encoder(input_ids=ids(tokenizer, text)).last_hidden_state for text in texts]
            fixed = torch.tensor([[0, 7, 8, 9]])
            wanted = untouched(encoder_outputs=(torch.cat(apart, dim=1),), decoder_input_ids=fixed).logits[0]
        assert differences(row, wanted) < 1e-4
        in_one_prompt = logits(untouched, tokenizer, [["".join(texts)]])[0]
        first_alone = logits(untouched, tokenizer, [texts[:1]])[0]
        assert differences(row, in_one_prompt) > 1e-2 and differences(row, first_alone) > 1e-2


@repeatable
@given(
    texts=st.lists(st.text("abc ", min_size=1, max_size=20).map("who? {}".format), min_size=1, max_size=5),
    data=st.data(),
)
def test_neither_order_nor_padding_matters(untouched, tokenizer, texts, data):
    alone = logits(untouched, tokenizer, [texts])[0]
    assert differences(logits(untouched, tokenizer, [data.draw(st.permutations(texts))])[0], alone) < 1e-4
    long_neighbour = ["context: " + "amber " * 20] * 3
    assert differences(logits(untouched, tokenizer, [texts, long_neighbour])[0], alone) < 1e-4


def test_the_mask_counts_the_tokens_of_each_question(untouched, tokenizer):
    states, mask = fid.encode(untouched, tokenizer, QUESTIONS)
    lengths = [sum(len(tokenizer(text).input_ids) for text in texts) for texts in QUESTIONS]
    assert mask.sum(dim=1).tolist() == lengths and states.shape == (2, max(lengths), 32)


# --- training ------------------------------------------------------------------------------------


def test_the_loss_falls_on_ten_examples(model, tokenizer):
    inputs, answers = zip(*EXAMPLES, strict=True)
    before = fid.loss(model, tokenizer, inputs, answers).item()
    losses = fid.train(model, tokenizer, EXAMPLES, fid.Recipe(epochs=10, batch=5, learning_rate=1e-2))
    after = fid.loss(model, tokenizer, inputs, answers).item()
    assert len(losses) == 20 and after < 0.7 * before and not model.training


def test_the_recipe_is_the_papers(model, tokenizer, monkeypatch):
    """130 examples: 3 steps an epoch, 30 in all, and 5 % of them, rounded to 2, are the warm-up."""
    steps, sizes = [], []

    class Spy(torch.optim.AdamW):
        def step(self, *arguments):
            steps.append((self.param_groups[0]["lr"], self.param_groups[0]["weight_decay"]))
            return super().step(*arguments)

    def counted(model, tokenizer, inputs, answers, *, loss=fid.loss):
        sizes.append(sorted(texts[0] for texts in inputs))
        return loss(model, tokenizer, inputs, answers)

    monkeypatch.setattr(fid.torch.optim, "AdamW", Spy)
    monkeypatch.setattr(fid, "loss", counted)
    examples = [([f"{i}"], "a") for i in range(130)]
    fid.train(model, tokenizer, examples, micro_batch=64)
    assert steps == [(2.5e-5, 0.01)] + [(5e-5, 0.01)] * 29
    assert [len(shown) for shown in sizes] == [64, 64, 2] * 10
    epochs = [sorted(itertools.chain(*sizes[start : start + 3])) for start in range(0, 30, 3)]
    assert epochs == [sorted(texts[0] for texts, _ in examples)] * 10
    assert len({tuple(shown) for shown in sizes}) == 30  # every epoch has its own order


@pytest.mark.parametrize("size", [1, 3, 10])
def test_the_losses_are_those_of_a_plain_loop_whatever_the_micro_batch(profile, model, tokenizer, size):
    examples = [(texts, answer * (i % 3 + 1)) for i, (texts, answer) in enumerate(EXAMPLES)]
    inputs, answers = zip(*examples, strict=True)
    plain = without_dropout(weights.load(profile).model)
    alone = [fid.loss(plain, tokenizer, [texts], [answer]).item() for texts, answer in examples]
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3, weight_decay=0.01)
    wanted = []
    for _ in range(4):
        optimizer.zero_grad()
        mean = fid.loss(plain, tokenizer, inputs, answers)
        mean.backward()
        optimizer.step()
        wanted.append(mean.item())
    recipe = fid.Recipe(epochs=4, batch=10, learning_rate=1e-3)
    losses = fid.train(without_dropout(model), tokenizer, examples, recipe, micro_batch=size)
    assert losses == pytest.approx(wanted, abs=1e-3) and losses[3] < losses[0] - 0.1
    assert abs(sum(alone) / 10 - losses[0]) > 1e-2  # an unweighted mean over the parts would be something else


def stopped_after(count):
    def progress(batches, **_):
        yield from itertools.islice(batches, count)
        raise KeyboardInterrupt

    return progress


def test_a_run_that_was_stopped_ends_with_the_same_weights(profile, tokenizer, tmp_path):
    whole = weights.load(profile).model
    losses = fid.train(whole, tokenizer, EXAMPLES, FAST)
    assert len(losses) == 6
    with pytest.raises(KeyboardInterrupt):
        stop = {"folder": tmp_path, "save_every": 2, "progress": stopped_after(3)}
        fid.train(weights.load(profile).model, tokenizer, EXAMPLES, FAST, **stop)
    assert [path.name for path in tmp_path.iterdir()] == ["state.safetensors"]
    totals = []

    def progress(batches, *, what, total):
        totals.append(total)
        return batches

    for _ in range(2):  # to the end, and once more when there is nothing left to do
        parts = weights.load(profile).model
        assert fid.train(parts, tokenizer, EXAMPLES, FAST, folder=tmp_path, progress=progress) == losses
        for name, weight in whole.state_dict().items():
            assert torch.equal(weight, parts.state_dict()[name]), name
    assert totals == [12, 0]  # of 20 examples shown, the two steps that were kept had 4 each


def test_training_leaves_the_callers_random_numbers_alone(model, tokenizer):
    torch.manual_seed(5)
    fid.train(model, tokenizer, EXAMPLES, fid.Recipe(epochs=1))
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))


def test_the_seed_decides_order_and_dropout(profile, tokenizer):
    runs = [
        fid.train(weights.load(profile).model, tokenizer, EXAMPLES, dataclasses.replace(FAST, seed=seed))
        for seed in (0, 0, 1)
    ]
    assert runs[0] == runs[1] != runs[2]
    same = [EXAMPLES[0]] * 10
    one_batch = [fid.Recipe(epochs=1, batch=10, seed=seed) for seed in (0, 1)]
    dropped = [fid.train(weights.load(profile).model, tokenizer, same, each, micro_batch=10)[0] for each in one_batch]
    assert dropped[0] != dropped[1]


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["examples", "settings", "weights"])
def test_the_folder_of_another_run_is_refused(profile, model, tokenizer, tmp_path, change):
    fid.train(model, tokenizer, EXAMPLES[:4], FAST, folder=tmp_path)
    again = weights.load(profile).model if change != "weights" else model
    examples = EXAMPLES[:3] if change == "examples" else EXAMPLES[:4]
    changed = dataclasses.replace(FAST, seed=int(change == "settings"))
    with pytest.raises(ValueError, match="another model, examples or settings"):
        fid.train(again, tokenizer, examples, changed, folder=tmp_path)


def test_a_damaged_state_is_named(profile, model, tokenizer, tmp_path):
    fid.train(model, tokenizer, EXAMPLES[:4], FAST, folder=tmp_path)
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"state\.safetensors is damaged.*delete it"):
        fid.train(weights.load(profile).model, tokenizer, EXAMPLES[:4], FAST, folder=tmp_path)


def test_a_decoder_alone_is_refused(tokenizer, tmp_path):
    llama = weights.load(tiny.llama(tmp_path)).model
    for call in (
        lambda: fid.encode(llama, tokenizer, QUESTIONS),
        lambda: fid.generate(llama, tokenizer, QUESTIONS, max_new_tokens=2),
        lambda: fid.loss(llama, tokenizer, QUESTIONS, ANSWERS),
        lambda: fid.train(llama, tokenizer, EXAMPLES),
    ):
        with pytest.raises(ValueError, match=r"wants an encoder-decoder such as T5, got LlamaForCausalLM"):
            call()


@pytest.mark.parametrize(
    ("inputs", "answers", "message"),
    [
        ([], [], "got no question"),
        ([["a secret"], []], ["b", "c"], "question 1 has no passages"),
        (["a secret"], ["b"], "question 0 has no passages"),
        ([["a secret", " "]], ["b"], "question 0 is empty"),
        ([["a secret"], ["b", None]], ["b", "c"], "question 1 is empty or no text"),
        ([["a secret"]], [""], "answer of question 0 is empty"),
        ([["a secret"]], ["b", "c"], "got 1 questions and 2 answers"),
    ],
)
def test_bad_questions_and_answers_are_named_and_not_quoted(untouched, tokenizer, inputs, answers, message):
    with pytest.raises(ValueError, match=message) as caught:
        fid.loss(untouched, tokenizer, inputs, answers)
    assert "secret" not in str(caught.value)


def test_bad_settings_are_named(untouched, tokenizer):
    wrong = {"epochs": 0, "batch": 1.5, "learning_rate": float("nan"), "weight_decay": -0.1, "warmup_share": 1.1}
    for name, value in [*wrong.items(), ("learning_rate", 0.0)]:
        with pytest.raises(ValueError, match=name):
            fid.Recipe(**{name: value})
    for name, value in {"micro_batch": 0, "save_every": -1}.items():
        with pytest.raises(ValueError, match=name):
            fid.train(untouched, tokenizer, EXAMPLES, **{name: value})


def test_a_loss_that_is_no_number_stops_the_run(model, tokenizer, tmp_path):
    model.lm_head.weight.data[:] = float("nan")
    with pytest.raises(ValueError, match="the loss of step 0 is nan"):
        fid.train(model, tokenizer, EXAMPLES, FAST, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_reply_may_be_without_tokens(untouched, tokenizer):
    with pytest.raises(ValueError, match="max_new_tokens must be a whole number of at least 1; got 0"):
        fid.generate(untouched, tokenizer, QUESTIONS, max_new_tokens=0)
