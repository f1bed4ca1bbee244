# Other people's checkpoint files, opened in place.

# How many calls look at a file now; -1: a read has it for itself. The handle's count does not tell, since views of the
# file count there.
mutable struct Gate
    @atomic users::Int
end

"""
    Ckpt.File(path; options...)

Another program's checkpoint, opened in place: a PyTorch `.pt`, a safetensors file or set, a directory of DCP, or
another layout that [`import_checkpoint`](@ref) takes. No code in it is run, and no converted copy is made. A tensor in
one piece can be mapped ([`map_tensor`](@ref)). One that is cut into several pieces, as those of DCP are, has no
address: [`load_tensor`](@ref) and [`read_tensor!`](@ref) give the elements of any. Of an address
(`"https://host/model.pt"`) the bytes of all tensors are fetched, unless `tensor_data` is 0: then only what is read is.
Options: those used by `file`. Throws NOT_FOUND, FORMAT, UNSUPPORTED (the error names the function that a pickle
calls), CORRUPT, GONE, IO.
"""
struct File <: Resource
    handle::Handle{ckpt_file}
    gate::Gate
end

function File(path::AbstractString; options...)
    return with_options(options) do bag
        File(made((out, err) -> ckpt_file_open(out, path, bag, err), ckpt_file), Gate(0))
    end
end

in_use() = throw(ConcurrencyViolationError("this file is being used by another task"))

# Calls f() while no task reads.
function beside_others(f, gate::Gate)
    users, done = (@atomic gate.users), false
    while !done
        users < 0 && in_use()
        users, done = @atomicreplace gate.users users => users + 1
    end
    try
        return f()
    finally
        @atomic gate.users -= 1
    end
end

# Calls f() while no other task uses the file; a second one gets an error, instead of two calls that meet in C.
function without_others(f, gate::Gate)
    _, done = @atomicreplace gate.users 0 => -1
    done || in_use()
    try
        return f()
    finally
        @atomic gate.users = 0
    end
end

"`\"pt\"` (zip), `\"pt-legacy\"`, `\"safetensors\"`, `\"dcp\"` and so on, as `ckpt_file.h` lists them."
format(file::File) = use(pointer -> unsafe_string(ckpt_file_format(pointer)), file.handle)

"What is in the directory and was not read: `\"meta.pt\"`, or `\"runs/\"` of a directory."
left_out(file::File) = use(file.handle) do pointer
    names = String[]
    while (name = ckpt_file_left_out(pointer, length(names))) != C_NULL
        push!(names, unsafe_string(name))
    end
    return names
end

"""
A tensor of a file: `name` (its path in the tree), `dtype`, `shape` and `strides` (row-major, in elements). `bytes`
counts its elements, `data_bytes` the gaps between them too. If it shares the memory of another tensor, `alias_of` is
the name of that one, and `alias_offset` the place (from 0) of its first element in that one flattened. `data` is
borrowed from the file; [`map_tensor`](@ref) returns it as an array. It is null where the tensor has no address, since
it lies in several pieces or `tensor_data` is 0: [`load_tensor`](@ref) gives its elements.
"""
FileTensor

Base.size(tensor::FileTensor) = Tuple(reverse(tensor.shape))

"All tensors of a file, in the order of its tree; an alias comes after the tensor whose memory it shares."
function tensors(file::File)
    count = use(ckpt_file_tensor_count, file.handle)
    return map(index -> tensor(file, index), 1:Int(count))
end

"One tensor of a file by its number, from 1."
tensor(file::File, index::Integer) = beside_others(file.gate) do
    told((pointer, out, err) -> ckpt_file_tensor_at(pointer, index - 1, out, err), file.handle, ckpt_file_tensor,
         FileTensor)
end

"""
    map_tensor(file, index; order = :reversed, bits = false) -> MappedTensor

A tensor of a file without a copy, with the strides that it has there. It keeps the file open.
"""
function map_tensor(file::File, index::Integer; order = :reversed, bits = false)
    held = Use(file.handle)
    found = tensor(file, index)
    found.data == C_NULL && found.bytes != 0 &&
        throw(ArgumentError("tensor $(found.name) has no address: it lies in several pieces, or tensor_data is " *
                            "0; load_tensor gives its elements"))
    return mapped(found.dtype, found.data, found.shape, found.strides, held, order, bits)
end

"The memory of a tensor as bytes, including the gaps between its elements. It keeps the file open."
function map_bytes(file::File, index::Integer)
    held = Use(file.handle)
    found = tensor(file, index)
    return MappedTensor{UInt8,1}(Ptr{UInt8}(found.data), (Int(found.data_bytes),), (1,), held)
end

"""
    read_tensor!(file, index, array; whole, box, flat, order = :reversed, dtype)

Reads a region of a tensor of a file into the array, also where the tensor has no address. Only what is wanted is read.
The keywords are those of `add_tensor!(load, …)`. A second task that uses the file meanwhile gets a
ConcurrencyViolationError. Throws NOT_FOUND (there is no such tensor), MISMATCH (it has another shape or dtype),
INVALID, and what `Ckpt.File` throws.
"""
function read_tensor!(file::File, index::Integer, array::AbstractArray; layout...)
    read_tensor!(file, index, describe(array; layout...), array)
    return nothing
end

"""
    read_tensor!(file, index, desc::TensorDesc, memory)

The same with a C description, into any contiguous array of enough bytes.
"""
function read_tensor!(file::File, index::Integer, desc::TensorDesc, memory::Union{AbstractArray,Nothing})
    check_writable(memory)
    raw = Ref(desc.raw)
    with_memory(memory) do data, bytes
        without_others(file.gate) do
            call((pointer, err) -> ckpt_file_read(pointer, index - 1, raw, data, bytes, err), file.handle)
        end
    end
    return nothing
end

"""
    load_tensor(file, index; bits = false, order = :reversed) -> Array

Reads a whole tensor of a file into a new array of the Julia type of its dtype; see [`read_tensor!`](@ref). `bits =
true` returns the bits as unsigned integers, for dtypes without a Julia type. Throws ArgumentError if it has none.
"""
function load_tensor(file::File, index::Integer; bits = false, order = :reversed)
    found = tensor(file, index)
    type = julia_type(found.dtype, bits)
    array = whole_array(type === Bool ? UInt8 : type, found.shape, order)
    read_tensor!(file, index, array; order, dtype = found.dtype)
    return type === Bool ? map(byte -> byte != 0x00, array) : array  # a Julia Bool must be the byte 0 or 1
end

function Tree(file::File)
    out = Ref{Ptr{ckpt_tree}}(C_NULL)
    call((pointer, err) -> ckpt_file_tree(pointer, out, err), file.handle)
    return Tree(file.handle, out[])
end
