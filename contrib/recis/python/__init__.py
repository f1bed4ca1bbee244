"""ckpt.recis: a checkpoint manager with the words of RecIS' CheckpointManager, over ckpt.Checkpointer.

manager.py is the manager; parts.py what it saves and the names of that, bank.py the sources of a model bank and which
of them gives what, loading.py how it gets into the model.
"""

from .bank import Entry
from .manager import CheckpointManager
from .parts import HashTable

__all__ = ["CheckpointManager", "Entry", "HashTable"]
