"""ckpt.recis.CheckpointManager."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from .. import _core
from ..checkpointer import Checkpointer
from ..checkpointer.selection import Found
from ..enums import Status
from ..errors import error_of
from ..handles import Store
from ..hints import some
from ..regions import Whose
from ..tables import Rowset
from .bank import Entry, Source
from .loading import Loading, load_bank, warn_of_missing
from .parts import GLOBAL_STEP, HashTable, Parts, check_io_state


class CheckpointManager:
    """RecIS' Saver and CheckpointManager in one, over a ckpt.Checkpointer.

        manager = ckpt.recis.CheckpointManager(path, model, tables={"items": table}, sparse_optim=optimizer,
                                               save_interval=1000, max_keep=5)
        manager.register_for_checkpointing("recis.dense.optim", dense_optimizer)
        manager.register_io_state("train_io", dataset)
        manager.restore()
        for batch in dataset:
            ...
            manager.step()

    `model`: a module, an object with state_dict() and load_state_dict(), or a dict of arrays. `tables`: by name, what
    follows ckpt.recis.HashTable; the manager loads them in windows of about `window_bytes`. `rowset`: which rows a rank
    loads of them (ckpt.Rowset.slice: RecIS' ranges of buckets, .mod: id mod world size). `save_interval`: of steps, or
    what `every` of a Checkpointer may be. `max_keep`: how many checkpoints stay; None: all. `model_bank`: sources that
    restore() takes what the run's own checkpoint lacks from. All else is as for a Checkpointer; `checkpointer` is it.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str] | Store,
        model: Any = None,
        *,
        tables: Mapping[str, HashTable] | None = None,
        sparse_optim: Any = None,
        save_interval: Any = None,
        max_keep: int | None = 1,
        model_bank: Iterable[Mapping[str, Any]] | None = None,
        rowset: Callable[..., Rowset] = Rowset.slice,
        window_bytes: int = 64 << 20,
        label: str = "ckpt_{step}",
        **checkpointer: Any,
    ) -> None:
        self._parts = Parts(model, {}, sparse_optim, rowset, window_bytes)
        for name in tables or {}:
            self._parts.check_name(name)
        self._parts.tables = dict(tables or {})
        self.save_interval = save_interval
        self._bank = _entries(model_bank)
        self._ids: Sequence[str] = ()  # of the bank's checkpoints, as they were loaded
        self._own: tuple[str, ...] = ()  # variables that the run's own checkpoint gave
        self.checkpointer = Checkpointer(output_dir, every=save_interval, keep_last=max_keep, label=label,
                                         **checkpointer)
        self._ranks, self._options = self.checkpointer._ranks, self.checkpointer._options

    # ---- what is saved ----

    def register_for_checkpointing(self, name: str, obj: Any) -> None:
        """Saves and restores an object with state_dict() and load_state_dict(), or a value, which get_extra_data() and
        set_extra_data() get and set. ValueError if the name is taken."""
        self._parts.check_name(name)
        self._parts.extra[name] = obj

    def register_io_state(self, name: str, obj: Any) -> None:
        """Saves and restores where this worker is in its data: an object with dump_io_state() and load_io_state(), or
        with state_dict() and load_state_dict(). ValueError if the name is taken."""
        self._parts.check_name(name)
        check_io_state(name, obj)
        self._parts.io_states[name] = obj

    def get_extra_data(self, name: str) -> Any:
        """What is registered under this name; None if nothing is."""
        return self._parts.extra.get(name)

    def set_extra_data(self, name: str, value: Any) -> None:
        """Gives a registered name a new value. KeyError if it is not registered."""
        if name not in self._parts.extra:
            raise KeyError(f"{name!r} is not registered for checkpointing")
        self._parts.extra[name] = value

    @property
    def global_step(self) -> int:
        """How many steps are done."""
        return int(self._parts.extra[GLOBAL_STEP])

    def step(self, metrics: Mapping[str, Any] | None = None, **counters: float) -> str | None:
        """Says that a step is done. Saves if that is due, in the background; returns the id then."""
        self._parts.extra[GLOBAL_STEP] = self.global_step + 1
        return self.checkpointer.step(self.global_step, self._parts.state, metrics=metrics, **counters)

    def save(self, *, label: str | None = None, metrics: Mapping[str, Any] | None = None, **counters: float) -> str:
        """Saves now, in the background, and returns the id. What has a `label` of its own stays for ever."""
        return self.checkpointer.save(self.global_step, self._parts.state, label=label, metrics=metrics, **counters)

    # ---- what is restored ----

    def restore(self, global_step: int | str | None = None, *, load: Iterable[str] = ("*",),
                exclude: Iterable[str] = (), strict: bool = True, or_rank0: bool = False,
                convert: bool = False) -> int:
        """Restores the run's newest checkpoint that is sound, or that of a step, and of the model bank what it lacks;
        returns the step. Nothing changes if there is no checkpoint and no bank. CorruptError if a damaged checkpoint
        that was passed over has changed what neither gives anew; tables that had no rows have none again. After it
        the steps that the run has already are saved anew, in place of the old ones.

        `load`, `exclude`: classes (`sparse`, `dense`, `extra`, `sparse_opt`, `io_state`), names, tables, names with
        stars. `strict`: with a model bank, and with False, what the checkpoint lacks is no error. Io states of another
        number of workers are a MismatchError, unless `or_rank0` gives each worker its own or rank 0's."""
        entry = Entry("", tuple(load), tuple(exclude), strict=strict and not self._bank, or_rank0=or_rank0)
        taken: dict[str, str] = {}
        tried: list[Loading] = []
        empty: list[str] = []  # tables without rows, which a load that fails on any rank leaves so
        self._parts.begun.clear()

        def load_into(reader: _core.Reader, common: Callable[[list[str]], list[str]]) -> tuple[Any, Found]:
            if not tried:
                empty[:] = [name for name, table in self._parts.tables.items() if len(table.export_rows().ids) == 0]
            self._parts.empty(empty)
            tried.append(Loading(self._parts, self._ranks, self._options, convert, common))
            taken.clear()
            taken.update(tried[-1].run([Source(entry, reader, 0, Whose(self._ranks.rank, self._ranks.size))]))
            return None, Found()

        select = "latest" if global_step is None else global_step
        try:
            found = self.checkpointer._restore_with(load_into, select)
        except BaseException:
            self._parts.empty(empty)
            raise
        if found is not None:
            tried[-1].settle()
            self._options["on_existing"] = "replace"  # of the run's later steps, which are made anew
        if found is not None and GLOBAL_STEP not in taken and entry.wants(GLOBAL_STEP, "extra"):
            self._parts.extra[GLOBAL_STEP] = max(found.step, 0)
        self._own = tuple(taken)
        if self._bank:
            self._load_bank(self._bank, convert)
        self._check_begun()
        return self.global_step

    def _check_begun(self) -> None:
        """CORRUPT, on all ranks, for what a checkpoint that was passed over has changed if it is still there."""
        begun = sorted(self._parts.begun)
        if self._ranks.most([bool(begun)])[0]:
            raise error_of(Status.CORRUPT, "a damaged checkpoint, which was passed over, has changed "
                           f"{some(begun) if begun else 'variables of another rank'}, which neither the one before it "
                           "nor the model bank replaces; restore a sound step into a new model with new tables, or let "
                           "model_bank give them (tables with hashtable_clear)")

    def load_model_bank(self, model_bank: Iterable[Mapping[str, Any]], *, convert: bool = False) -> dict[str, str]:
        """Loads a model bank: of each variable from the last source that has it. Returns the variables that were
        loaded, and from which checkpoint or file. MissingWarning names what no source has.

        A source is a dict. `path` must be there: a store, a checkpoint in it, a file of PyTorch or safetensors, or what
        RecIS itself has saved, ckpt_{step} or the directory of its run.
        `select`, `run`: which checkpoint of a store. `load`, `exclude`: as in restore(). `oname`: names in the model
        and in the source, {"table_f*": "table_e*"}, or a list of these. `hashtable_clear` (True): empty a table before
        its rows are loaded; False: they join those of earlier sources. `strict` (None): True refuses a source that
        lacks what is asked for, or has more. `ignore_error` (False): warn of names that are not there. `skip`,
        `or_rank0`, `is_dynamic`, and `at`: where it has the model's tensors."""
        self._bank, self._own = _entries(model_bank), ()
        return self._load_bank(self._bank, convert)

    def reload_model_bank(self, *, convert: bool = False) -> dict[str, str]:
        """Loads those sources of the model bank again that are `is_dynamic` and have a newer checkpoint than before;
        of other sources what they give to a table that these empty."""
        taken, self._ids = load_bank(self._parts, self._bank, self._ranks, self._options, self._own, self._ids, convert)
        return taken

    def _load_bank(self, bank: Sequence[Entry], convert: bool) -> dict[str, str]:
        taken, self._ids = load_bank(self._parts, bank, self._ranks, self._options, self._own, convert=convert)
        wanted = {name for name, kind in self._parts.variables().items()
                  if any(entry.wants(name, kind) for entry in bank if not entry.skip)}
        warn_of_missing(sorted(wanted - set(taken) - set(self._own)))
        return taken

    # ---- the end ----

    def wait(self) -> None:
        """Waits until the save in flight is committed, and raises its failure."""
        self.checkpointer.wait()

    def close(self) -> None:
        """Waits for the save in flight, raises its failure, and gives the signals back."""
        self.checkpointer.close()

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.checkpointer.__exit__(kind, value, trace)

    def __repr__(self) -> str:
        parts = self._parts
        names = [*parts.tables, *parts.extra, *parts.io_states]
        return f"<ckpt.recis.CheckpointManager at step {self.global_step}: {', '.join(names)}; {self.checkpointer!r}>"


def _entries(model_bank: Iterable[Mapping[str, Any]] | None) -> list[Entry]:
    return [Entry.of(given) for given in model_bank or ()]
