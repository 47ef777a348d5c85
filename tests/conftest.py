"""The tests compare the engine with plain transformers on the processor, also on a machine with a GPU; CUDA_VISIBLE_DEVICES overrules that."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
