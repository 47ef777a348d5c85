"""The published packages `llmlingua` and `selective-context`, asked with our reader what they prune.

    pip install --no-deps --target FOLDER llmlingua==0.2.2 tiktoken nltk
    pip install --no-deps --target FOLDER selective-context==0.1.4
    python benchmarks/packages.py FOLDER            # --check compares with what is kept instead of writing it

Written to `data/results/06_ecorag_ablations/packages.csv`, for some passages of the companion corpus: per token LLMLingua's score and
whether it is kept at half the tokens, and per sentence Selective-Context's score. Neither package runs as it comes:

* llmlingua asks the network for a file of `tiktoken`, by which it counts tokens for the bill; a stand-in counts words here. A text of more
  than one segment stops with a ValueError on transformers 5, whose caches are no longer pairs; every text is one segment here.
* selective-context imports spaCy 3.2.0, which has no wheel for Python 3.11, to cut phrases, and loads GPT-2 and a spaCy model by name.
  It is asked for sentences here, for which it needs neither, with this book's reader in the place of GPT-2.
"""

import argparse
import importlib.metadata
import sys
import tempfile
import types
from pathlib import Path

import pandas as pd
import torch

from experiments import table, verify
from rag_utils import data, lm

RESULTS, PASSAGES = table.FOLDER / "06_ecorag_ablations" / "packages.json", 6


def lingua(folder: str, reader, passages) -> list[dict]:
    """Per token: the surprise that the package finds after the begin token, and whether it keeps it at half the tokens."""
    import tiktoken

    tiktoken.encoding_for_model = lambda name: types.SimpleNamespace(encode=str.split)
    from llmlingua import PromptCompressor

    package, rows = PromptCompressor(folder, device_map="cpu"), []
    choose = package.get_compressed_input  # of the tokens; given their numbers, it tells which ones

    def numbered(losses, tokens, *others, **options):
        return choose(losses, torch.arange(tokens.shape[1])[None], *others, **options)

    package.get_compressed_input = numbered
    for passage in passages:
        tokens = reader.encode(passage.text, context=False)
        scores = package.get_ppl(reader.tokenizer.bos_token + passage.text, "token").tolist()
        alone = [float("nan"), *package.get_ppl(passage.text, "token").tolist()]
        one_segment = {"iterative_size": len(tokens), "dynamic_ratio": [0.0]}
        places, _ = package.iterative_compress_prompt([passage.text], len(tokens) / 2, **one_segment)
        kept = set(places[0].tolist())
        for place, (score, own) in enumerate(zip(scores, alone, strict=True)):
            row = {"id": passage.id, "condition": "LLMLingua", "rank": place, "score": score, "alone": own}
            rows.append(row | {"kept": int(place in kept)})
    return rows


def selective(reader, passages) -> list[dict]:
    """Per sentence: the mean surprise of its tokens that the package finds, sentence by sentence."""
    sys.modules["spacy"] = types.SimpleNamespace(load=None)
    from selective_context import SelectiveContext

    package, rows = SelectiveContext.__new__(SelectiveContext), []
    package.lang, package.device, package.sent_level_self_info = "en", torch.device("cpu"), True
    package.model, package.tokenizer = reader.model, reader.tokenizer
    package.nlp = lambda sentence: [types.SimpleNamespace(text=sentence, whitespace_="")]
    package.get_self_information = package._get_self_info_via_gpt2
    for passage in passages:
        for place, score in enumerate(package._lexical_unit(list(passage.sentences))[0].self_info):
            row = {"id": passage.id, "condition": "Selective-Context", "rank": place, "score": float(score)}
            rows.append(row)
    return rows


def measured(folder: Path, profile: str, passages: int) -> table.Kept:
    """What both packages say of the first passages of the companion corpus, as a table with its settings."""
    sys.path.append(str(folder))
    reader = lm.load(profile, mode="fresh")
    asked = sorted(data.passages("companion"), key=lambda passage: passage.id)[:passages]
    with tempfile.TemporaryDirectory() as copy:
        reader.model.save_pretrained(copy)
        reader.tokenizer.save_pretrained(copy)
        rows = lingua(copy, reader, asked)
    versions = {name: importlib.metadata.version(name) for name in ("llmlingua", "selective-context", "transformers")}
    facts = {"fingerprints": {profile: reader.fingerprint}, "versions": versions}
    settings = {"profile": profile, "passages": passages}
    return table.Kept(pd.DataFrame(rows + selective(reader, asked)), "benchmarks.packages:measured", settings, facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the packages were installed")
    parser.add_argument("--check", action="store_true", help="compare with the committed table, write nothing")
    given = parser.parse_args()
    again = measured(given.folder, "embedded", PASSAGES)
    if not given.check:
        table.save(RESULTS, again)
        return
    wrong = verify.differences(table.parsed(table.text_of("packages", again.rows)), table.load(RESULTS), few=False)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"verified, {len(again.rows)} rows")


if __name__ == "__main__":
    main()
