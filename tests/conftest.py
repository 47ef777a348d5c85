"""The tests compare the engine with plain transformers on the processor, also where there is a GPU, unless CUDA_VISIBLE_DEVICES is set."""

import os

from hypothesis import settings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
settings.register_profile("book", deadline=None)  # an example may take long where much else is computed
settings.load_profile("book")
