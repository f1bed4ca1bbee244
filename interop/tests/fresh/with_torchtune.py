"""torchtune: its checkpointers write an epoch and a recipe's state, and load what ckpt wrote of both."""
import json
import os
import sys

import said
import torch

SIZES = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 16, "vocab_size": 5}


def weights():
    """Of a small Llama of one layer, by transformers' names."""
    torch.manual_seed(3)
    at, shapes = "model.layers.0.", {"model.embed_tokens.weight": (5, 16), "model.norm.weight": (16,),
                                     "lm_head.weight": (5, 16)}
    for name, rows, columns in (("self_attn.q", 16, 16), ("self_attn.k", 8, 16), ("self_attn.v", 8, 16),
                                ("self_attn.o", 16, 16), ("mlp.gate", 6, 16), ("mlp.up", 6, 16), ("mlp.down", 16, 6)):
        shapes[f"{at}{name}_proj.weight"] = (rows, columns)
    for name in ("input_layernorm", "post_attention_layernorm"):
        shapes[f"{at}{name}.weight"] = (16,)
    return {name: torch.randn(shape, dtype=torch.float32).bfloat16() for name, shape in shapes.items()}


def adapter():
    return {f"layers.0.attn.{name}_proj.lora_{kind}.weight": torch.randn(shape)
            for name, rows in (("q", 16), ("v", 8)) for kind, shape in (("a", (3, 16)), ("b", (rows, 3)))}


def base(work):
    """What a recipe begins with: a folder of transformers'."""
    from safetensors.torch import save_file
    folder = os.path.join(work, "base")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(SIZES, file)
    names = sorted(weights())
    for i, part in enumerate((names[:4], names[4:])):
        save_file({name: weights()[name] for name in part}, os.path.join(folder, f"hf-{i + 1:05}-of-00002.safetensors"))
    return folder


def make(kind, work, folder, files, output):
    import torchtune.training as training
    made = getattr(training, f"FullModel{kind}Checkpointer")
    return made(checkpoint_dir=os.path.join(work, folder), checkpoint_files=files, model_type="LLAMA2",
                output_dir=os.path.join(work, output))


HF_FILES = ["hf-00001-of-00002.safetensors", "hf-00002-of-00002.safetensors"]


def recipe(model):
    state = {name: {"step": torch.tensor(7.0), "exp_avg": torch.randn(value.shape)} for name, value in model.items()}
    return {"optimizer": {"state": state, "param_groups": [{"lr": 0.5, "params": list(model)}]}, "seed": 5,
            "epochs_run": 1, "total_epochs": 3, "max_steps_per_epoch": None}


def write(work):
    import torchtune
    from safetensors.torch import load_file
    from torchtune.models import convert_weights
    folder = base(work)
    model = make("HF", work, folder, HF_FILES, "unused").load_checkpoint()["model"]
    for kind in ("HF", "TorchTune", "Meta"):
        checkpointer = make("HF", work, folder, HF_FILES, kind)
        if kind == "HF":
            checkpointer.load_checkpoint()  # keeps which weight is in which file
        else:
            os.makedirs(os.path.join(work, "tune"), exist_ok=True)
            names = convert_weights.tune_to_meta(dict(model)) if kind == "Meta" else model
            torch.save(names, os.path.join(work, "tune", f"{kind}.pt"))
            checkpointer = make(kind, work, "tune", [f"{kind}.pt"], kind)
        rest = recipe(model)
        lora = {"adapter": adapter()} if kind != "HF" else {}
        checkpointer.save_checkpoint({"model": dict(model), **lora, **rest}, epoch=1, intermediate_checkpoint=True)
        epoch, written = os.path.join(work, kind, "epoch_1"), {}
        for name in sorted(os.listdir(epoch)):
            if name.startswith("model-") and name.endswith((".safetensors", ".bin")):
                path = os.path.join(epoch, name)
                written.update(load_file(path) if name.endswith("safetensors") else torch.load(path))
        assert len(written) == len(model), (kind, os.listdir(epoch))
        said.case(kind, kind, {"model": written, **lora, **rest}, exports={f"{kind}-again": {"format": "torchtune"}})
    said.write(work, f"torchtune {torchtune.__version__}")


def loaded(kind, work, output):
    """What the checkpointer resumes with: the model by torchtune's names, the adapter, the recipe's state."""
    import torchtune.training as training
    folder = os.path.join(work, output)
    if not os.path.exists(os.path.join(folder, "epoch_1", "config.json")):  # ckpt leaves it out
        with open(os.path.join(folder, "epoch_1", "config.json"), "w", encoding="utf-8") as file:
            json.dump(SIZES, file)
    files = sorted(f"epoch_1/{name}" for name in os.listdir(os.path.join(folder, "epoch_1"))
                   if name.startswith("model-") and not name.endswith(".json"))
    made = getattr(training, f"FullModel{kind}Checkpointer")
    if kind == "HF":
        return made(checkpoint_dir=os.path.join(work, "base"), checkpoint_files=files, model_type="LLAMA2",
                    output_dir=folder, should_load_recipe_state=True).load_checkpoint()
    # With an adapter a checkpointer resumes from the base model, and takes the epoch's where it does not resume.
    checkpointer = made(checkpoint_dir=os.path.join(work, "tune"), checkpoint_files=[f"{kind}.pt"], model_type="LLAMA2",
                        output_dir=folder, should_load_recipe_state=True)
    epoch = made(checkpoint_dir=folder, checkpoint_files=files, model_type="LLAMA2",
                 output_dir=os.path.join(work, "unused"))
    return checkpointer.load_checkpoint(), epoch.load_checkpoint()


def names_in(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names
                  if name.endswith((".safetensors", ".bin", ".pt", "index.json")))


def check(work):
    for kind in ("HF", "TorchTune", "Meta"):
        again = f"{kind}-again"
        assert names_in(os.path.join(work, kind)) == names_in(os.path.join(work, again)), names_in(
            os.path.join(work, again))
        said.must_equal(loaded(kind, work, kind), loaded(kind, work, again), kind)


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2])
