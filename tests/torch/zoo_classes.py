"""The classes whose instances the zoo pickles: what a trainer's own code would hold."""
import enum
import sys

from quick_torch import torch
from torch import nn


class Local:
    """Pickled as a class of the script itself, as most people's classes are."""

    def __init__(self):
        self.rate, self.names, self.weight = 0.5, ["a", "b"], torch.arange(3.0)


Local.__module__ = "__main__"
sys.modules["__main__"].Local = Local


class Plain:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


class Stated:
    """Its state is a tuple, not a dict of fields."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __getstate__(self):
        return (self.first, self.second)

    def __setstate__(self, state):
        self.first, self.second = state


class Reduced:
    """Made again by calling the class with arguments."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __reduce__(self):
        return Reduced, self.arguments


class NamedList(list):
    """A list with fields of its own."""


class NamedDict(dict):
    """A dict with fields of its own."""


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * 6 * 6, 5), nn.ReLU(), nn.Linear(5, 2, bias=False))
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("passing", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.head(self.norm(self.convolution(x))) * self.scale


class Tied(nn.Module):
    """Embedding and output share one Parameter."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.rnn = nn.LSTM(4, 4, batch_first=True)
        self.output = nn.Linear(4, 7, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, ids):
        return self.output(self.rnn(self.embedding(ids))[0])


class Marked(torch.Tensor):
    """A subclass of Tensor, with a field."""
