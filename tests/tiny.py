"""Small random models with a byte tokenizer, made from configurations: the hub path without a hub."""

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rag_utils.engine.profiles import Profile

SPECIAL = ["<pad>", "<bos>", "<eos>"]
SIZE = len(SPECIAL) + 256


def tokenizer():
    """One token a byte: nothing to train, and any text round-trips."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    raw = Tokenizer(models.BPE(vocabulary, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
    )


def _save(model, folder: Path) -> str:
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def llama(folder: Path, *, seed: int = 0, spread: float = 0.4, shape: dict | None = None, **changes) -> Profile:
    """A random Llama with a distribution that is neither flat nor a point."""
    torch.manual_seed(seed)
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    small |= {"num_key_value_heads": 2, "max_position_embeddings": 256}
    config = transformers.LlamaConfig(
        **small | (shape or {}),
        vocab_size=SIZE,
        initializer_range=spread,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return Profile(name="tiny-llama", reader=_save(transformers.LlamaForCausalLM(config), folder), **changes)


def mistral(folder: Path, *, seed: int = 0) -> Profile:
    """A random model whose layers look back only eight tokens."""
    torch.manual_seed(seed)
    config = transformers.MistralConfig(
        vocab_size=SIZE, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.4, sliding_window=8,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return Profile(name="tiny-mistral", reader=_save(transformers.MistralForCausalLM(config), folder))


def t5(folder: Path, *, seed: int = 0) -> Profile:
    torch.manual_seed(seed)
    config = transformers.T5Config(
        vocab_size=SIZE, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, initializer_factor=1.5,
        pad_token_id=0, eos_token_id=2, decoder_start_token_id=0,
    )  # fmt: skip
    return Profile(
        name="tiny-t5", reader=_save(transformers.T5ForConditionalGeneration(config), folder), task="seq2seq"
    )


def bert(folder: Path, *, seed: int = 0) -> str:
    """A random encoder; its folder."""
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=SIZE, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=128, initializer_range=0.4, pad_token_id=0,
    )  # fmt: skip
    return _save(transformers.BertModel(config), folder)


def deberta(folder: Path, *, seed: int = 0) -> Profile:
    torch.manual_seed(seed)
    config = transformers.DebertaV2Config(
        vocab_size=SIZE, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=256, type_vocab_size=0, relative_attention=True, pos_att_type=["p2c", "c2p"],
        num_labels=3, id2label={0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"}, pad_token_id=0,
    )  # fmt: skip
    judge = _save(transformers.DebertaV2ForSequenceClassification(config), folder)
    return Profile(name="tiny-deberta", reader="embedded", judge=judge)
