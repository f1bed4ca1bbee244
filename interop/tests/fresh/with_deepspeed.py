"""DeepSpeed: its engine saves ZeRO 1 to 3, f32 and bf16, on two ranks; its own tools say what that is."""
import os
import sys

import said
import torch

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")
ENGINE = ("global_steps", "skipped_steps", "lr_scheduler", "epoch", "note")


def model_of(work, case, initial):
    """zero_to_fp32's, with what is not trained as the module has it: of ZeRO-1 zero_to_fp32 leaves that out. Buffers
    stay f32 in a bf16 module."""
    model = torch.load(os.path.join(work, f"{case}.pt"))["model"]
    for name, value in initial.state_dict().items():
        if name.startswith("frozen."):
            model[name] = value.to(torch.bfloat16 if case.startswith("bf16") else torch.float32)
    return model


def universal_state(work, folder):
    """{name: {slot: tensor}} of the files that ds_to_universal made."""
    top, states = os.path.join(work, folder, "global_step3_universal", "zero"), {}
    for name in os.listdir(top):
        for slot in ("exp_avg", "exp_avg_sq"):
            path = os.path.join(top, name, f"{slot}.pt")
            if os.path.exists(path):  # not of what shares another's memory, or is frozen
                value = torch.load(path)  # of ZeRO-3 the elements in a row
                states.setdefault(name, {})[slot] = value["param"] if isinstance(value, dict) else value
    assert len(states) == 5, list(states)
    return states


def shaped(states, shapes):
    return {name: {slot: value.flatten()[:shapes[name].numel()].view(shapes[name]) for slot, value in slots.items()}
            for name, slots in states.items()}


def write(work):
    sys.path.insert(0, FIXTURES)
    sys.argv = ["make_deepspeed.py", work]
    import make_deepspeed
    make_deepspeed.main()
    initial = make_deepspeed.Model()
    shapes = {name: value.shape for name, value in initial.state_dict().items()}
    states = {"zero1": universal_state(work, "universal"), "zero3": universal_state(work, "universal3")}
    for case in make_deepspeed.CASES:
        name = "zero_pp_rank_0_mp_rank_00" if case.endswith("zero3") else "mp_rank_00"
        engine = torch.load(os.path.join(work, case, "global_step3", f"{name}_model_states.pt"), weights_only=False)
        state = {"model": model_of(work, case, initial), "engine": {key: engine[key] for key in ENGINE}}
        part = ["/model/", *[f"/engine/{key}" for key in ENGINE]]
        if case in states:
            slots = shaped(states[case], shapes)
            state["optimizer"] = {"state": slots}
            part += [f"/optimizer/state/{key}/{slot}" for key in slots for slot in slots[key]]
        said.case(case, case, state, part=part)
    for folder, case in (("universal", "zero1"), ("universal3", "zero3")):
        slots = shaped(states[case], shapes)
        part = [f"/optimizer/state/{key}/{slot}" for key in slots for slot in slots[key]]
        said.case(folder, folder, {"optimizer": {"state": slots}}, part=part)
    import deepspeed
    said.write(work, f"deepspeed {deepspeed.__version__}")


if __name__ == "__main__":
    {"write": write}[sys.argv[1]](sys.argv[2])
