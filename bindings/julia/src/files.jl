# Other people's checkpoint files, opened in place.

"""
    Ckpt.File(path; options...)

A PyTorch `.pt` file or a safetensors file, mapped into memory. It is not copied, and no code in it is run. Of an
address (`"https://host/model.pt"`) the bytes of all tensors are fetched, unless `tensor_data` is 0: then none are.
Options: `verify`, `threads`, `tensor_data`, `map`, `map_at`, `map_back`, `config`, `only`, `exclude`, `cast`,
`strict`, `endpoint`, `region`, `path_style`, `profile`, `ca_file`, `http_header`. Throws NOT_FOUND, FORMAT, UNSUPPORTED
(the error names the function that a pickle calls), CORRUPT, GONE, IO.
"""
struct File <: Resource
    handle::Handle{ckpt_file}
end

function File(path::AbstractString; options...)
    return with_options(options) do bag
        File(made((out, err) -> ckpt_file_open(out, path, bag, err), ckpt_file))
    end
end

"`\"pt\"` (zip), `\"pt-legacy\"` or `\"safetensors\"`."
format(file::File) = use(pointer -> unsafe_string(ckpt_file_format(pointer)), file.handle)

"""
A tensor of a file: `name` (its path in the tree), `dtype`, `shape` and `strides` (row-major, in elements). `bytes`
counts its elements, `data_bytes` the gaps between them too. If it shares the memory of another tensor, `alias_of` is
the name of that one, and `alias_offset` the place (from 0) of its first element in that one flattened. `data` is
borrowed from the file; [`map_tensor`](@ref) returns it as an array.
"""
struct FileTensor
    name::String
    dtype::DType
    shape::Vector{Int}
    strides::Vector{Int}
    bytes::UInt64
    data_bytes::UInt64
    alias_of::Union{String,Nothing}
    alias_offset::Int64
    data::Ptr{Cvoid}
end

FileTensor(raw::ckpt_file_tensor) =
    FileTensor(text(raw.name), DType(raw.dtype), extents(raw.shape, raw.ndim), extents(raw.strides, raw.ndim),
               raw.bytes, raw.data_bytes, text(raw.alias_of), raw.alias_offset, raw.data)

Base.size(tensor::FileTensor) = Tuple(reverse(tensor.shape))

"All tensors of a file, in the order of its tree; an alias comes after the tensor whose memory it shares."
function tensors(file::File)
    count = use(ckpt_file_tensor_count, file.handle)
    return map(index -> tensor(file, index), 1:Int(count))
end

"One tensor of a file by its number, from 1."
tensor(file::File, index::Integer) =
    told((pointer, out, err) -> ckpt_file_tensor_at(pointer, index - 1, out, err), file.handle, ckpt_file_tensor,
         FileTensor)

"""
    map_tensor(file, index; order = :reversed, bits = false) -> MappedTensor

A tensor of a file without a copy, with the strides that it has there. It keeps the file open.
"""
function map_tensor(file::File, index::Integer; order = :reversed, bits = false)
    keeper = Keeper(file.handle)
    found = tensor(file, index)
    found.data == C_NULL && found.bytes != 0 && throw(ArgumentError("the file was opened with tensor_data = 0"))
    return mapped(found.dtype, found.data, found.shape, found.strides, keeper, order, bits)
end

"The memory of a tensor as bytes, including the gaps between its elements. It keeps the file open."
function map_bytes(file::File, index::Integer)
    keeper = Keeper(file.handle)
    found = tensor(file, index)
    return MappedTensor{UInt8,1}(Ptr{UInt8}(found.data), (Int(found.data_bytes),), (1,), keeper)
end

function Tree(file::File)
    out = Ref{Ptr{ckpt_tree}}(C_NULL)
    call((pointer, err) -> ckpt_file_tree(pointer, out, err), file.handle)
    return Tree(file.handle, out[])
end
