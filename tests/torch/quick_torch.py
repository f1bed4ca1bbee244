"""Imports torch for the tests: one thread, no warnings, and without its compiler, whose import takes long."""
import sys
import types
import warnings

warnings.filterwarnings("ignore")  # of prototypes: sparse CSR, quantized, nested

import torch  # noqa: E402  (after the filter)


def without_compiler():
    """Optimizers import torch._dynamo (torch >= 2.1) only to tell it that it should leave them alone."""
    def as_it_is(function=None, *_, **__):
        return function if function is not None else as_it_is
    stand_in = types.ModuleType("torch._dynamo")
    stand_in.disable = stand_in.allow_in_graph = as_it_is
    stand_in.graph_break = stand_in.mark_static_address = lambda *_, **__: None
    stand_in.is_compiling = lambda: False
    sys.modules["torch._dynamo"] = torch._dynamo = stand_in


torch.set_num_threads(1)
if hasattr(torch, "_compile"):
    without_compiler()
