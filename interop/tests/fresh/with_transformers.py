"""transformers: its Trainer's directory, and save_pretrained's files, which from_pretrained takes from ckpt too."""
import os
import shutil
import sys

import said

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")


def trainer_state(folder):
    import torch
    from safetensors.torch import load_file
    at = {name: os.path.join(folder, name) for name in os.listdir(folder)}
    with open(at["trainer_state.json"], encoding="utf-8") as file:
        about = file.read()  # a text of JSON to ckpt, too
    return {"model": load_file(at["model.safetensors"]), "optimizer": torch.load(at["optimizer.pt"]),
            "scheduler": torch.load(at["scheduler.pt"], weights_only=False),
            "rng_state": torch.load(at["rng_state.pth"], weights_only=False), "trainer_state": about}


def write(work):
    import transformers
    folder = os.path.join(work, "checkpoint-2")
    sys.path.insert(0, FIXTURES)
    sys.argv = ["make_hf_trainer.py", folder]
    import make_hf_trainer  # noqa: F401, runs
    said.case("checkpoint-2", "checkpoint-2", trainer_state(folder),
              exports={"from-trainer": {"at": "model", "shard_bytes": 700}})
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model.save_pretrained(os.path.join(work, "sharded"), max_shard_size=700)
    assert len([name for name in os.listdir(os.path.join(work, "sharded")) if name.endswith(".safetensors")]) > 2
    said.case("sharded", "sharded", model.state_dict(), exports={"again": {}})
    said.write(work, f"transformers {transformers.__version__}")


def check(work):
    from transformers import AutoModelForCausalLM
    expected = AutoModelForCausalLM.from_pretrained(os.path.join(work, "checkpoint-2")).state_dict()
    for name in ("from-trainer", "again"):
        folder = os.path.join(work, name)
        shutil.copy(os.path.join(work, "sharded", "config.json"), folder)
        model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
        said.must_equal(expected, model.state_dict(), name)
    names = [sorted(name for name in os.listdir(os.path.join(work, of)) if "model" in name)
             for of in ("sharded", "again")]
    assert names[0] == names[1], names


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2])
