"""The tests compare the engine with plain transformers on the processor, also where there is a GPU, unless CUDA_VISIBLE_DEVICES is set."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
