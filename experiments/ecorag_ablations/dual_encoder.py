"""A dual encoder of which all weights can be trained: one tower for questions, one for sentences, and their dot product.

    score = similarity(load("embedded"))     # a compressor ranks by it

Both towers begin as the same encoder of Hugging Face. Labels of evidence train them in `training/evidence.py`.

source : ECoRAG, section 3.1.2; there Contriever (Izacard et al. 2022), whose vectors are means over the tokens and keep their length
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from experiments.ecorag_ablations import compressors
from rag_utils.base.cache import make_dir
from rag_utils.base.names import check_name
from rag_utils.base.progress import no_loading_bars
from rag_utils.engine.weights import WeightsError
from rag_utils.retrieve import Encoder, sentence_model

UNIT_LENGTH = {"embedded": True, "facebook/contriever": False}  # how these encoders were trained
SIDES = ("question", "sentence")
FACTS = "dual_encoder.json"
BATCH = 64


class DualEncoder(torch.nn.Module):
    """Two encoders that begin alike.

    question, sentence : models of transformers whose first output is a vector per token
    unit_length        : whether a text's vector is brought to length 1
    max_tokens         : of a text; what is longer is cut there, as sentence encoders do
    """

    def __init__(self, question, sentence, tokenizer, *, unit_length: bool, max_tokens: int = 256):
        super().__init__()
        self.question, self.sentence, self.tokenizer = question, sentence, tokenizer
        self.unit_length, self.max_tokens = unit_length, max_tokens

    def embed(self, side: str, texts: Sequence[str]) -> torch.Tensor:
        """(n, d) means over the tokens of each text, with their gradient; padding counts nowhere.

        side   : one of SIDES
        raises : ValueError for another side, no texts, or a single text instead of a list
        """
        if isinstance(texts, str) or not len(texts):
            raise ValueError(f"texts must be a list of at least one string; got {texts!r:.20}")
        tower, cut = getattr(self, check_name("side", side, SIDES)), {"truncation": True, "max_length": self.max_tokens}
        batch = self.tokenizer(list(texts), padding=True, return_tensors="pt", **cut).to(tower.device)
        mask = batch["attention_mask"].unsqueeze(-1)
        states = tower(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])[0]
        means = (states * mask).sum(dim=1) / mask.sum(dim=1)
        return torch.nn.functional.normalize(means, dim=-1) if self.unit_length else means

    def forward(self, question: str, texts: Sequence[str]) -> torch.Tensor:
        """(n,) similarities of a question and its texts."""
        return self.embed("sentence", texts) @ self.embed("question", [question])[0]


def load(name: str | Path, *, unit_length: bool | None = None) -> DualEncoder:
    """A dual encoder in evaluation mode, on the fastest device there is.

    name        : "embedded", a folder that `save` wrote, or any encoder: a folder with safetensors or a name on the hub
    unit_length : by default as the encoder was trained or saved
    raises      : ValueError for an encoder of which neither is known; WeightsError if its weights cannot be had
    """
    import transformers

    known, places = UNIT_LENGTH.get(str(name)), [name, name]
    if name == "embedded":
        places = [sentence_model()[0].auto_model.name_or_path] * 2
    elif (Path(name) / FACTS).is_file():
        known = json.loads((Path(name) / FACTS).read_text(encoding="utf-8"))["unit_length"]
        places = [Path(name) / side for side in SIDES]
    unit_length = known if unit_length is None else unit_length
    if unit_length is None:
        raise ValueError(f"unit_length must be True or False for {str(name)!r}: how it was trained is not known here")
    safe = {"dtype": torch.float32, "use_safetensors": True, "trust_remote_code": False}
    try:
        with no_loading_bars():
            tokenizer = transformers.AutoTokenizer.from_pretrained(places[0], trust_remote_code=False)
            both = [transformers.AutoModel.from_pretrained(place, **safe) for place in places]
    except (OSError, ValueError) as error:
        raise WeightsError(f"the encoder {str(name)!r} is neither here nor to be had from a hub: {error}") from error
    model = DualEncoder(*both, tokenizer, unit_length=unit_length)
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def save(model: DualEncoder, folder: Path) -> None:
    """Both towers as safetensors in the form of transformers, each in a folder named after its side."""
    for side in SIDES:
        getattr(model, side).save_pretrained(make_dir(Path(folder) / side))
        model.tokenizer.save_pretrained(Path(folder) / side)
    facts = json.dumps({"unit_length": model.unit_length})  # last: without it the folder is no dual encoder
    (Path(folder) / FACTS).write_text(facts + "\n", encoding="utf-8")


def encoder(model: DualEncoder, side: str) -> Encoder:
    """One tower as a function: list of texts -> (n, d) float32; texts of like length are read together."""
    check_name("side", side, SIDES)

    @torch.inference_mode()
    def encode(texts: Sequence[str]) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        found: dict[int, np.ndarray] = {}
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            rows = model.eval().embed(side, [texts[place] for place in some]).cpu().numpy()
            found |= dict(zip(some, rows, strict=True))
        return np.array([found[place] for place in range(len(texts))])

    return encode


def similarity(model: DualEncoder) -> compressors.Score:
    """The dot product of both towers, as compressors take it."""
    return compressors.similarity(encoder(model, "sentence"), asked=encoder(model, "question"))
