"""A trainer of several ranks over gloo with a table, for test_recis.py: RANK WORLD FILE STORE MODE. "save", "restore",
"bank", or "fail": a bank that one rank cannot load. "late": two steps more, with a second table; "empty" and "full"
restore them where rank 1 reads rows of the second table only, into tables with and without rows. "unmade": rank 1
cannot tell its rows when a save is due."""

import sys
from typing import Any

import ckpt
import torch
import torch.distributed as dist
from ckpt.recis import CheckpointManager
from hash_tables import torch_table


def main(rank: int, world: int, meet: str, path: str, mode: str) -> None:
    dist.init_process_group("gloo", f"file://{meet}", rank=rank, world_size=world)
    torch.manual_seed(0)
    model, table, told = torch.nn.Linear(3, 2), torch_table(torch, 3), "fine"
    if mode == "save":
        ids = torch.arange(rank, 100, world)
        table.insert_rows(ids, {name: ids[:, None] + torch.zeros(3) for name in table.columns})
    else:
        torch.nn.init.zeros_(model.weight)
    if mode == "fail" and rank == 1:
        model = torch.nn.Linear(3, 5)
    tables, rowset = {"items": table}, ckpt.Rowset.slice
    if mode in ("late", "empty", "full"):
        tables["users"] = torch_table(torch, 3)
        if mode != "empty":
            tables["users"].insert_rows(torch.tensor([rank]), {name: torch.ones(1, 3) for name in table.columns})
    if mode in ("empty", "full") and rank == 1:
        shares = iter([ckpt.Rowset.ids([]), *[ckpt.Rowset.all()] * 5])
        rowset = lambda *_: next(shares)  # noqa: E731
    with CheckpointManager(path + ("-new" if mode in ("bank", "fail") else ""), model, tables=tables, rowset=rowset,
                           save_interval=2, max_keep=None, signals=()) as manager:
        if mode == "late":
            manager.restore(strict=False)
        for _ in range({"save": 5, "late": 2}.get(mode, 0)):
            manager.step()
        try:
            if mode in ("restore", "empty", "full"):
                manager.restore(strict=mode == "restore")
            if mode == "unmade":
                manager.step()
                if rank == 1:
                    table.export_rows = lambda: 1 // 0
                manager.step()
            if mode in ("bank", "fail"):
                manager.load_model_bank([{"path": path, "load": ["items"]}, {"path": path, "exclude": ["items"]}])
        except (ckpt.Error, ZeroDivisionError) as error:
            told = type(error).__name__
            if mode == "unmade":
                vars(table).pop("export_rows", None)
                manager.save(label="after")
    rows: Any = table.export_rows()
    right = all(bool((values == rows.ids[:, None]).all()) for values in rows.columns.values())
    print(told, manager.global_step, float(model.weight.sum() != 0), right, *rows.ids.tolist(),
          *(["users", *tables["users"].ids.tolist()] if "users" in tables else []))
    dist.destroy_process_group()


main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
