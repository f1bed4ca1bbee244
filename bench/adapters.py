"""Other checkpoint libraries, each reduced to what peers.py needs.

kind                   "torch" or "numpy": the kind of the state's tensors
mapped                 load returns a mapping of the file: nothing is in memory yet
setup()                imports, not timed
save(state, folder)
load(folder, model)    returns a dict of tensors, or None if it filled `model` in place
one(folder, tensor)    the tensor of that manifest entry
list(folder)           names
async_save(state, folder)  returns a function that waits until the data is written
"""

import os


class Torch:
    kind, mapped = "torch", False

    def setup(self):
        import torch

        self.torch = torch

    def save(self, state, folder):
        self.torch.save(state, folder + "/m.pt")

    def load(self, folder, model):
        return self.torch.load(folder + "/m.pt", weights_only=True, mmap=self.mapped)

    def one(self, folder, tensor):
        return self.torch.load(folder + "/m.pt", weights_only=True, mmap=True)[tensor["name"]].clone()

    def list(self, folder):
        return list(self.torch.load(folder + "/m.pt", weights_only=True, mmap=True))


class TorchMapped(Torch):
    mapped = True


class SafeTensors:
    kind, mapped, backend = "torch", True, {}

    def setup(self):
        import safetensors.torch

        self.module, self.open = safetensors.torch, safetensors.safe_open

    def save(self, state, folder):
        self.module.save_file(state, folder + "/m.safetensors")

    def load(self, folder, model):
        return self.module.load_file(folder + "/m.safetensors", **self.backend)

    def one(self, folder, tensor):
        with self.open(folder + "/m.safetensors", "pt", **self.backend) as file:
            return file.get_tensor(tensor["name"]).clone()

    def list(self, folder):
        with self.open(folder + "/m.safetensors", "pt") as file:
            return list(file.keys())


class SafeTensorsPread(SafeTensors):
    mapped, backend = False, {"backend": "pread"}


class SafeTensorsNumpy(SafeTensors):
    kind, mapped = "numpy", False

    def setup(self):
        import ml_dtypes  # bf16
        import safetensors.numpy

        self.module, self.ml_dtypes = safetensors.numpy, ml_dtypes


class Dcp:
    """torch.distributed.checkpoint; it loads in place."""

    kind, mapped = "torch", False

    def __init__(self, threads=1):
        self.threads = threads

    def setup(self):
        import logging
        import warnings
        import torch
        import torch.distributed.checkpoint as dcp

        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        self.torch, self.dcp = torch, dcp

    def writer(self, folder):
        return self.dcp.FileSystemWriter(folder, thread_count=self.threads)

    def reader(self, folder):
        return self.dcp.FileSystemReader(folder)

    def save(self, state, folder):
        self.dcp.save(state, storage_writer=self.writer(folder), no_dist=True)

    def load(self, folder, model):
        self.dcp.load(model, storage_reader=self.reader(folder), no_dist=True)

    def one(self, folder, tensor):
        empty = self.torch.empty(tensor["shape"], dtype=getattr(self.torch, tensor["dtype"]))
        self.load(folder, {tensor["name"]: empty})
        return empty

    def list(self, folder):
        return list(self.reader(folder).read_metadata().state_dict_metadata)


class DcpAsync(Dcp):
    """async_save in a thread; its stager keeps its memory from save to save, if this torch has that."""

    def setup(self):
        super().setup()
        import torch.distributed as distributed

        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", str(20000 + os.getpid() % 20000))
        distributed.init_process_group("cpu:gloo", rank=0, world_size=1)
        self.stager = None
        try:
            from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

            self.stager = DefaultStager(StagingOptions(False, False, False, False))
        except (ImportError, TypeError):
            pass

    def async_save(self, state, folder):
        writer = self.dcp.FileSystemWriter(folder)
        future = self.dcp.async_save(state, storage_writer=writer, async_stager=self.stager)
        if hasattr(future, "staging_completion"):
            future.staging_completion.result()
        return getattr(future, "upload_completion", future).result


class Npz:
    """numpy.savez; numpy has no bf16, so bf16 tensors are saved as 16-bit integers."""

    kind, mapped = "numpy", False

    def setup(self):
        import ml_dtypes
        import numpy

        self.np, self.ml_dtypes = numpy, ml_dtypes

    @staticmethod
    def plain(state):
        return {name: array.view("u2") if array.dtype.itemsize == 2 else array for name, array in state.items()}

    def save(self, state, folder):
        self.np.savez(folder + "/m.npz", **self.plain(state))

    def load(self, folder, model):
        with self.np.load(folder + "/m.npz") as file:
            return {name: file[name] for name in file.files}

    def one(self, folder, tensor):
        with self.np.load(folder + "/m.npz") as file:
            return file[tensor["name"]]

    def list(self, folder):
        with self.np.load(folder + "/m.npz") as file:
            return list(file.files)


class Npy(Npz):
    """numpy.save, one file for each tensor."""

    def save(self, state, folder):
        for name, array in self.plain(state).items():
            self.np.save(f"{folder}/{name}.npy", array)

    def load(self, folder, model):
        return {name: self.np.load(f"{folder}/{name}.npy") for name in model}

    def one(self, folder, tensor):
        return self.np.load(f"{folder}/{tensor['name']}.npy")

    def list(self, folder):
        return [name.removesuffix(".npy") for name in os.listdir(folder)]


class RunAi(SafeTensors):
    """run:ai's streamer, which reads safetensors files."""

    mapped = False

    def setup(self):
        super().setup()
        os.environ.setdefault("RUNAI_STREAMER_CONCURRENCY", "2")
        os.environ.setdefault("RUNAI_STREAMER_MEMORY_LIMIT", "-1")
        import runai_model_streamer

        self.runai = runai_model_streamer

    def load(self, folder, model):
        self.streamer = self.runai.SafetensorsStreamer().__enter__()  # it owns the tensors' memory
        self.streamer.stream_file(folder + "/m.safetensors")
        return dict(self.streamer.get_tensors())


class Tensorizer:
    kind, mapped = "torch", False

    def setup(self):
        import warnings

        warnings.simplefilter("ignore")
        import tensorizer

        self.module = tensorizer

    def save(self, state, folder):
        writer = self.module.TensorSerializer(folder + "/m.tensors")
        writer.write_state_dict(state)
        writer.close()

    def load(self, folder, model):
        self.reader = self.module.TensorDeserializer(folder + "/m.tensors", device="cpu", num_readers=2)
        return dict(self.reader.items())


class SafeTensorsShards:
    """As RecIS saves a sparse table: ids and rows sorted by bucket, a range of buckets in each file."""

    kind, mapped, shards, buckets = "numpy", True, 3, 65536

    def setup(self):
        import numpy
        import safetensors.numpy

        self.np, self.module, self.open = numpy, safetensors.numpy, safetensors.safe_open

    def file(self, folder, shard):
        return f"{folder}/{shard}.safetensors"

    def save(self, state, folder):
        if "ids" not in state:  # of the warm-up
            return self.module.save_file(state, self.file(folder, 0))
        bucket = state["ids"][:, 0].view("u8") % self.buckets
        order = bucket.argsort(kind="stable")
        ends = self.np.searchsorted(bucket[order], [self.buckets * n // self.shards for n in range(self.shards + 1)])
        for shard in range(self.shards):
            rows = order[ends[shard] : ends[shard + 1]]
            self.module.save_file({name: values[rows] for name, values in state.items()}, self.file(folder, shard))

    def load(self, folder, model, names=None, shards=None):
        found = {}
        for shard in range(self.shards if shards is None else shards):
            if not os.path.exists(self.file(folder, shard)):
                continue
            with self.open(self.file(folder, shard), "np") as file:
                for name in names or file.keys():
                    found.setdefault(name, []).append(file.get_tensor(name))
        return {name: self.np.concatenate(values) for name, values in found.items()}

    def half(self, folder):
        return self.load(folder, {}, shards=2)  # the third has none of the first half


class Parquet:
    """pyarrow's, with its defaults; rows are lists of fixed size."""

    kind, mapped = "numpy", False

    def setup(self):
        import numpy
        import pyarrow
        import pyarrow.parquet

        self.np, self.pa, self.parquet = numpy, pyarrow, pyarrow.parquet

    def save(self, state, folder):
        lists = self.pa.FixedSizeListArray.from_arrays
        columns = {name: lists(self.pa.array(v.reshape(-1)), v.shape[1]) for name, v in state.items()}
        self.parquet.write_table(self.pa.table(columns), folder + "/m.parquet")

    def load(self, folder, model, names=None):
        table = self.parquet.read_table(folder + "/m.parquet", columns=names)
        return {
            name: self.np.concatenate([chunk.flatten().to_numpy().reshape(len(chunk), -1) for chunk in values.chunks])
            for name, values in zip(table.column_names, table.columns)
        }

    def half(self, folder):
        return self.load(folder, {})


class Ckpt:
    """ckpt's own binding, as a program calls it: no option is set."""

    kind, mapped = "torch", False

    def setup(self):
        import ckpt
        import torch  # noqa: F401

        self.ckpt, self.sessions = ckpt, {}

    def save(self, state, folder):
        self.ckpt.save(folder, state)

    def load(self, folder, model):
        if not model:
            return self.ckpt.load(folder, framework="torch")
        self.ckpt.load(folder, into=model)
        return None

    def async_save(self, state, folder):
        place, label = os.path.split(folder)
        if place not in self.sessions:
            self.sessions[place] = self.ckpt.Session(self.ckpt.Store(place))
        return self.ckpt.save_async(self.sessions[place], state, label=label).result


ALL = {
    "ckpt-python": Ckpt(),
    "torch.save": Torch(),
    "torch.load": Torch(),
    "torch.load-mmap": TorchMapped(),
    "safetensors": SafeTensors(),
    "safetensors-pread": SafeTensorsPread(),
    "safetensors-numpy": SafeTensorsNumpy(),
    "dcp": Dcp(),
    "dcp-2threads": Dcp(2),
    "dcp-async": DcpAsync(),
    "npz": Npz(),
    "npy": Npy(),
    "safetensors-shards": SafeTensorsShards(),
    "parquet": Parquet(),
    "runai-streamer": RunAi(),
    "tensorizer": Tensorizer(),
}
