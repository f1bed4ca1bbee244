"""ckpt.Checkpointer: decides when a trainer saves, what is kept, and what it starts from.

_core.Keeper has the policy, which is that of all languages. checkpointer.py does what it says with a Python state;
policy.py turns the caller's values into its options, preemption.py has the signals, restoring.py the ranks that load,
selection.py what of a checkpoint is restored into the caller's state, checking.py what a save would do, events.py what
is told of the work, listing.py what is in the store.
"""

from .checkpointer import Checkpointer, Restored
from .checking import Check
from .events import Event
from .policy import Moment

__all__ = ["Check", "Checkpointer", "Event", "Moment", "Restored"]
