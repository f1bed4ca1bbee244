"""Composer: its Trainer saves packed files, and resumes from those that ckpt wrote."""
import io
import os
import sys
import tarfile

import said

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")
ENDINGS = (".tar", ".tar.gz", ".tar.lzma", ".pt.lz4")
OUT = (".tar.gz", ".tar.lzma", ".pt")


def maker(folder):
    sys.path.insert(0, FIXTURES)
    sys.argv = ["make_composer.py", folder, *ENDINGS]
    import make_composer
    return make_composer


def state_of(path):
    """As Composer opens it: its own unpacking for what is packed, tarfile for its archives."""
    import torch
    from composer.utils.compression import get_compressor, is_compressed_pt
    if is_compressed_pt(path):
        with get_compressor(path).decompress(path) as file:
            return torch.load(io.BytesIO(file.read()), weights_only=False)
    with tarfile.open(path) as archive:
        return torch.load(io.BytesIO(archive.extractfile("composer_states.pt").read()), weights_only=False)


def write(work):
    maker(work).main()
    for ending in ENDINGS:
        path = f"ep1-ba2-rank0{ending}"
        exports = {f"again{end}": {"format": "composer"} for end in OUT} if ending == ".tar" else {}
        said.case(path, path, state_of(os.path.join(work, path)), exports=exports)
    from composer import __version__
    said.write(work, f"composer {__version__}")


def check(work):
    make = maker(work)
    expected = state_of(os.path.join(work, "ep1-ba2-rank0.tar"))["state"]
    for ending in OUT:
        trainer = make.make_trainer(load_path=os.path.join(work, f"again{ending}"))
        said.must_equal(expected["model"], trainer.state.model.state_dict(), f"{ending}: model")
        (optimizer,) = trainer.state.optimizers
        found = list(optimizer.state_dict()["state"].values())
        said.must_equal(list(expected["optimizers"]["AdamW"]["state"].values()), found, f"{ending}: optimizer")
        assert str(trainer.state.timestamp.batch) == "2ba", trainer.state.timestamp
        trainer.close()


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2])
