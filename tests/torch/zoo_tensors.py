"""Zoo: tensors of every dtype, layout and way of sharing memory. Each function gives one object to save."""

import numpy
from quick_torch import torch
from torch import nn

import zoo_classes as classes

SHELLS = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)} | {"bit"}  # names: torch.save knows none
QUANTIZED = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}


def dtypes():
    """All dtypes of this torch that ordinary tensors can have."""
    found = {value for value in vars(torch).values() if isinstance(value, torch.dtype)} - QUANTIZED
    return sorted((dtype for dtype in found if str(dtype)[6:] not in SHELLS), key=str)


def patterned(dtype, count):
    """Bytes that differ from each other, NaNs and denormals among them, seen as `dtype`."""
    size = torch.empty(0, dtype=dtype).element_size()
    data = bytes((37 * i + 11) % 251 for i in range(count * size))
    if dtype == torch.bool:
        data = bytes(value & 1 for value in data)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype)


def of_dtype(dtype):
    return {"matrix": patterned(dtype, 6).reshape(2, 3), "empty": torch.empty(0, 2, dtype=dtype),
            "scalar": patterned(dtype, 1).reshape(())}


def floats():
    return {"f32": torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 3.4e38]),
            "f16": torch.tensor([float("nan"), 65504.0, 6e-8], dtype=torch.float16),
            "bf16": torch.tensor([float("nan"), 3.3e38, 1e-40], dtype=torch.bfloat16)}


def complex_views():
    values = torch.complex(torch.arange(6.0), -torch.arange(6.0)).reshape(2, 3)
    return {"plain": values, "conjugate": values.conj(), "resolved": values.conj().resolve_conj(),
            "transposed": values.T,
            "conjugate_transposed": values.mH}


def parts_of_complex():
    values = torch.complex(torch.arange(6.0), -torch.arange(6.0)).reshape(2, 3)
    return {"real": values.real, "imaginary": values.imag, "negative": values.conj().imag}


def shapes():
    return {"scalar": torch.tensor(3.5), "scalar_int": torch.tensor(7), "empty": torch.empty(0),
            "no_rows": torch.empty(0, 4),
            "no_columns": torch.empty(3, 0, 2), "one": torch.ones(1, 1, 1, 1),
            "deep": torch.arange(64.0).reshape([2] * 6),
            "sixteen": torch.arange(2.0).reshape([1] * 15 + [2]), "long": torch.arange(100000)}


def seventeen_dimensions():
    return torch.arange(2.0).reshape([1] * 16 + [2])


def strides():
    base = torch.arange(120.0).reshape(4, 5, 6)
    image = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    return {"transposed": torch.arange(12.0).reshape(3, 4).T,
            "permuted": base.permute(2, 0, 1).clone(memory_format=torch.preserve_format),
            "step": torch.arange(20.0)[::3], "middle": torch.arange(120.0).reshape(4, 5, 6)[1:3, 2:, ::2],
            "expanded": torch.arange(3.0).reshape(3, 1).expand(3, 4), "scalar_expanded": torch.tensor(2.0).expand(5),
            "channels_last": image.to(memory_format=torch.channels_last),
            "channels_last_3d": image.reshape(1, 2, 3, 4, 5).to(memory_format=torch.channels_last_3d),
            "windows": torch.arange(10.0).unfold(0, 4, 1), "diagonal": torch.arange(16.0).reshape(4, 4).diagonal(),
            "empty_strided": torch.empty_strided((2, 3), (7, 2)).fill_(1.0), "flipped": torch.arange(5.0).flip(0),
            "one_wide": torch.arange(6.0).reshape(6, 1)[::2], "bools": (torch.arange(9) % 2 == 0).reshape(3, 3).T}


def views_of_one_storage():
    base = torch.arange(100.0)
    return {"whole": base, "first": base[:50], "second": base[50:], "middle": base[40:60],
            "matrix": base.reshape(10, 10),
            "column": base.reshape(10, 10)[:, 3], "block": base.reshape(10, 10)[2:4, 5:], "point": base[77],
            "tail": base[99:],
            "none": base[100:], "again": base}


def views_without_their_base():
    base = torch.arange(100.0)
    return {"disjoint": [base[:10], base[90:]], "overlapping": (base[20:50], base[40:70]), "inside": base[45:48]}


def column_before_its_matrix():
    matrix = torch.arange(30.0).reshape(5, 6)
    return {"column": matrix[:, 1], "rows": matrix[1:3], "matrix": matrix, "transposed": matrix.T}


def view_of_another_dtype():
    return {"bytes": torch.arange(8, dtype=torch.int32).view(torch.uint8)[3:9]}


def two_interleaved():
    base = torch.arange(20)
    return [base[::2], base[1::2]]


def one_tensor_many_times():
    tensor, other = torch.randn(3), torch.randn(3)
    return {"a": tensor, "b": [tensor, (tensor, other)], "c": {"d": other, "e": tensor.data}}


def part_of_a_large_storage():
    return torch.arange(50000.0)[12345:12350]


def alone():
    return torch.arange(6.0).reshape(2, 3)


def list_of_tensors():
    return [torch.arange(3), torch.ones(2, 2), torch.zeros(0)]


def parameters():
    weight = nn.Parameter(torch.randn(2, 3))
    fixed = nn.Parameter(torch.randn(2), requires_grad=False)
    return {"weight": weight, "fixed": fixed, "data": weight.data,
            "ints": nn.Parameter(torch.arange(3), requires_grad=False),
            "list": [weight, weight]}


def requiring_grad():
    leaf = torch.randn(3, requires_grad=True)
    return {"leaf": leaf, "detached": leaf.detach(), "plain": torch.randn(2)}


def parameters_with_state():
    weight = nn.Parameter(torch.randn(2))
    weight.partition, weight.owner = 3, "rank 1"
    tensor = torch.randn(2)
    tensor.note = {"a": 1}
    return {"parameter": weight, "tensor": tensor}


def subclasses():
    tensor = torch.arange(4.0).as_subclass(classes.Marked)
    tensor.note = "marked"
    return {"marked": tensor, "buffer": getattr(nn, "Buffer", nn.Parameter)(torch.arange(2.0))}


def uninitialized():
    return {"parameter": nn.UninitializedParameter(), "linear": nn.LazyLinear(3).state_dict()}


def quantized_per_tensor():
    values = torch.tensor([[-1.0, 0.25, 3.0], [0.5, 1.0, -2.5]])
    made = {str(dtype): torch.quantize_per_tensor(values, 0.125, 2, dtype)
            for dtype in (torch.qint8, torch.quint8, torch.qint32)}
    made["transposed"] = torch.quantize_per_tensor(values, 0.1, 3, torch.qint8).T
    return made


def quantized_per_channel():
    values = torch.arange(12.0).reshape(3, 4)
    scales, points = torch.tensor([0.1, 0.25, 0.5], dtype=torch.float64), torch.tensor([1, 0, 3])
    return {"rows": torch.quantize_per_channel(values, scales, points, 0, torch.qint8),
            "columns": torch.quantize_per_channel(values, torch.rand(4) + 0.5, torch.zeros(4), 1, torch.quint8),
            "float_points": torch.quantize_per_channel(values, torch.rand(3) + 0.5, torch.rand(3), 0, torch.quint8)}


def quantized_packed():
    return torch.quantize_per_channel(torch.arange(12.0).reshape(
        3, 4), torch.rand(3) + 0.5, torch.zeros(3), 0, torch.quint4x2)


def sparse_coo():
    indices = torch.tensor([[0, 1, 1], [2, 0, 2]])
    plain = torch.sparse_coo_tensor(indices, torch.tensor([3.0, 4.0, 5.0]), (2, 3))
    return {"plain": plain, "coalesced": plain.coalesce(), "empty": torch.sparse_coo_tensor(size=(3, 4)),
            "hybrid": torch.sparse_coo_tensor(indices, torch.randn(3, 2), (2, 3, 2)),
            "bf16": torch.sparse_coo_tensor(indices, torch.ones(3, dtype=torch.bfloat16), (2, 3)),
            "parameter": nn.Parameter(plain.clone()),
            "twice": torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.tensor([1.0, 2.0]), (2,))}


def sparse_rows():
    dense = torch.tensor([[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 4.0, 5.0, 0.0]])
    rows, columns = torch.tensor([0, 1, 1], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)
    return {"csr": dense.to_sparse_csr(), "narrow": torch.sparse_csr_tensor(rows, columns, torch.tensor([9]), (2, 3))}


def sparse_columns():
    return torch.eye(4).to_sparse_csc()


def sparse_blocks():
    return torch.eye(4).to_sparse_bsr((2, 2))


def sparse_blocks_by_column():
    return torch.eye(4).to_sparse_bsc((2, 2))


def nested_tensor():
    return torch.nested.nested_tensor([torch.arange(3.0), torch.arange(5.0)])


def meta_tensor():
    return {"meta": torch.empty(2, 3, device="meta"), "real": torch.ones(1)}


def typed_storage():
    return torch.arange(4.0).storage()


def untyped_storage():
    storage = torch.arange(6, dtype=torch.int16).storage()
    return {"untyped": storage.untyped() if hasattr(storage, "untyped") else storage._storage, "number": 1}


def storage_beside_its_tensor():
    tensor = torch.arange(6, dtype=torch.int16)
    return {"storage": tensor.storage(), "tensor": tensor[2:]}


def from_numpy():
    return torch.from_numpy(numpy.arange(6.0).reshape(2, 3))

