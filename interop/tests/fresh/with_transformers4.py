"""transformers 4, the last that writes pytorch_model.bin: in several files, with tied weights and bf16."""
import os
import sys

import said


def models():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    yield "gpt2", GPT2LMHeadModel(GPT2Config(n_embd=12, n_layer=3, n_head=2, n_positions=9, vocab_size=101))
    yield "llama", LlamaForCausalLM(LlamaConfig(
        hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=77)).to(torch.bfloat16)


def write(work):
    import transformers
    for name, model in models():
        folder = os.path.join(work, name)
        model.save_pretrained(folder, safe_serialization=False, max_shard_size="3KB")
        files = [file for file in os.listdir(folder) if file.endswith(".bin")]
        assert len(files) > 2, files
        said.case(name, name, model.state_dict(), exports={f"{name}-out": {"shard_bytes": 3000}})
    said.write(work, f"transformers {transformers.__version__}")


def check(work):
    import shutil
    for name, model in models():
        out = os.path.join(work, f"{name}-out")
        shutil.copy(os.path.join(work, name, "config.json"), out)
        loaded, report = type(model).from_pretrained(out, dtype=model.dtype, output_loading_info=True)
        assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
        said.must_equal(model.state_dict(), loaded.state_dict(), name)


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2])
