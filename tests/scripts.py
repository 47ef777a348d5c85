"""The scripts of `training/` and `benchmarks/`, which are no packages, as modules."""

import importlib.util

from rag_utils.base.cache import ROOT


def script(name, folder="training"):
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
