"""ckpt.load: loads a state, a subtree of it, or what of it is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from .arguments import Rename, checked, patterns, whole
from .frameworks import FrameworkName
from .loading import load_from
from .progress import Progress
from .ranks import own_rank
from .regions import Whose
from .sources import FileReader, Source, open_source


@checked(rank=lambda name, value: None if value is None or value == "own" else whole(name, value, 0, 2**31 - 1))
def load(
    source: Source,
    selector: str = "latest",
    *,
    into: Any = None,
    at: Sequence[str | int] = (),
    framework: FrameworkName | None = None,
    convert: bool = False,
    only: str | Iterable[str] = (),
    without: str | Iterable[str] = (),
    rename: Rename = None,
    on_shape_mismatch: str = "error",
    rank: int | Literal["own"] | None = "own",
    or_rank0: bool = False,
    progress: Progress = None,
    options: Mapping[str, int | str] | None = None,
    **keywords: int | str,
) -> Any:
    """Loads the state of a checkpoint and checks every byte.

    `source`: the path of a store, a Store or a Reader; or the directory of one checkpoint in a store; or a file or
    directory of another program (docs/formats.md lists them), of which no code is run; option map then names a mapping.

    `selector`: "latest", a label, "label:L", "name:N", "step:N" or an id. PassedOverWarning names newer
    checkpoints that cannot be loaded; with on_damaged="error" that is an error. `at`: the keys that lead to a subtree,
    ("model",); only that is read and returned. `framework`: what new tensors are, "numpy", "torch" or "jax"; by default
    as in `into` (of numpy or torch), else as they were saved. Tensors that shared memory when they were saved share it
    again.

    `rank`: which of several ranks this is; by default that of torch's process group or jax.distributed, which is asked
    for nothing else. Where the state has a ckpt.PerRank, the result has the value that this rank saved. If another
    number of ranks saved it, that is a MismatchError with both numbers, unless `or_rank0` gives each rank its own value
    or rank 0's; random states fit any number. None: a ckpt.Record of all ranks' values, by "rank0" and so on.

    `into`: a state of the same form as the result. Its arrays and Shards are filled and put into the result; where it
    has none, new arrays are made. Its objects with load_state_dict() (modules, optimizers, schedulers) take their
    states; what a module or optimizer has no place for is not read. All other values come from the checkpoint. Arrays
    of jax never change: for each, for a key and for a jax.ShapeDtypeStruct, the result has a new array of that
    sharding, shape and dtype, and the dicts and lists of `into` keep the old one (a Checkpointer puts it in). Before
    any array changes come NotFoundError for an array or object of `into` that the checkpoint lacks, MismatchError for
    an array of another shape or dtype (`convert` allows conversion between f32, bf16 and f16), and TypeError if `into`
    has something that cannot hold tensors where the checkpoint has some. After CorruptError the arrays are undefined.

    `only`, `without`, `rename`, `on_shape_mismatch`: as of Checkpointer.restore, with paths below `at`. `into` is a
    dict then, which is filled and returned; without `into` the result has what is wanted, and nothing else is read. Of
    a file of another program, `only` and `without` are globs of the names of tensors.

    Option `strict`: "none" leaves arrays of `into` unchanged that the checkpoint lacks, and MissingWarning names them;
    "exact" also raises MismatchError for a tensor of the checkpoint that `into` has no array for, or that lies outside
    of `at`, and for whatever a module or optimizer of `into` has no place for.
    """
    chosen = {**(options or {}), **keywords}
    only, without = patterns(only), patterns(without)
    globs = {name: ",".join(given) for name, given in (("only", only), ("exclude", without)) if given}
    reader = open_source(source, selector, chosen, globs)
    try:
        whose = None if rank is None else Whose(*own_rank(), or_rank0) if rank == "own" else Whose(rank, None, or_rank0)
        if rename or on_shape_mismatch != "error" or (globs and not isinstance(reader, FileReader)):
            from .checkpointer.selection import Choice, load_chosen, skips_shapes  # not before it is needed
            choice = Choice(only, without, rename, chosen.get("strict") != "none", skips_shapes(on_shape_mismatch),
                            convert, tuple(at), 'strict="none"')
            return load_chosen(reader, into, choice, framework, whose, progress, chosen)
        return load_from(reader, into, at, framework, convert, whose, progress, chosen)
    finally:
        if reader is not source:
            reader.close()
