"""What the end of an interpreter does here. It is registered when ckpt is imported, not with the first save: so it
comes after whatever the program registers from then on, which may still save.
"""
import atexit
import sys

from . import _core


def _call(module: str, function: str) -> None:
    """A function of a module of this package, if anything has needed that module."""
    if (found := sys.modules.get(f"{__package__}.{module}")) is not None:
        getattr(found, function)()


atexit.register(_core.end_backends)  # the last of these, since the first to be registered
atexit.register(_call, "background", "cancel_what_is_left")
atexit.register(_call, "ranks", "close")
