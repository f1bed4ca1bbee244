"""ckpt.Checkpointer: decides when a trainer saves, what is kept, and what it starts from.

checkpointer.py is the manager; policy.py says when a save is due and what it is called, history.py what is kept,
preemption.py why a trainer must stop, selection.py what of a checkpoint is restored into the
caller's state, checking.py what a save would do.
"""

from .checkpointer import Checkpointer, Restored
from .checking import Check
from .policy import Moment

__all__ = ["Check", "Checkpointer", "Moment", "Restored"]
