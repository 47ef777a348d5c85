"""A dual encoder of which all weights are trained: one tower for questions, one for sentences, and their dot product.

Both towers begin as the same encoder of sentence-transformers, which says itself how a text becomes a vector and keeps what was trained.

source : ECoRAG, section 3.1.2; there Contriever (Izacard et al. 2022), whose vectors are means over the tokens and keep their length
"""

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

from rag_utils.base.cache import make_dir
from rag_utils.engine.weights import WeightsError
from rag_utils.retrieve import sentence_model

SIDES = ("question", "sentence")
MAX_TOKENS = 256  # of a text; what is longer is cut there


class DualEncoder(torch.nn.Module):
    """Two encoders that begin alike."""

    def __init__(self, tower: SentenceTransformer):
        super().__init__()
        self.question, self.sentence = tower, copy.deepcopy(tower)

    def forward(self, question: str, texts: Sequence[str]) -> torch.Tensor:
        """(n,) similarities of a question and its texts, with their gradient."""
        return embedded(self.sentence, texts) @ embedded(self.question, [question])[0]


def embedded(tower: SentenceTransformer, texts: Sequence[str]) -> torch.Tensor:
    """(n, d) vectors of the texts; padding counts nowhere."""
    batch = tower.preprocess(list(texts))
    on_device = {name: part.to(tower.device) if hasattr(part, "to") else part for name, part in batch.items()}
    return tower(on_device)["sentence_embedding"]


def load(name: str | Path) -> DualEncoder:
    """Two towers alike, in evaluation mode, on the fastest device there is.

    name   : "embedded", or any encoder: a folder with safetensors, or a name on the hub, of which the mean over the tokens is taken unless
             it says otherwise itself
    raises : WeightsError if its weights cannot be had
    """
    if name == "embedded":
        tower = copy.deepcopy(sentence_model())
    else:
        safe = {"dtype": torch.float32, "use_safetensors": True}
        try:
            tower = SentenceTransformer(str(name), model_kwargs=safe, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise WeightsError(f"the encoder {str(name)!r} is neither here nor to be had from a hub: {error}") from error
    tower.max_seq_length = min(tower.max_seq_length or MAX_TOKENS, MAX_TOKENS)
    return DualEncoder(tower).to("cuda" if torch.cuda.is_available() else "cpu").eval()


def save(model: DualEncoder, folder: Path) -> None:
    """Each tower in a folder named after its side, as `experiments.ecorag_ablations.compressors.towers` reads them."""
    for side in SIDES:
        getattr(model, side).save(str(make_dir(Path(folder) / side)), create_model_card=False)
