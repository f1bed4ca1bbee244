# Loads: many requests that the library plans and reads together.

"""
    Load(reader; options…)

Make a load, add requests, then `run` or `start` it once. Only one task at a time may use it. Options: those used by
`load`.
"""
struct Load <: Resource
    handle::Handle{ckpt_load}
    arrays::Vector{Any}  # the arrays added to it, until its job holds them
end

function Load(reader::Reader; options...)
    return with_options(options) do bag
        use(reader.handle) do pointer
            Load(made((out, err) -> ckpt_load_new(out, pointer, bag, err), ckpt_load), Any[])
        end
    end
end

"""
    add_tensor!(load, name, array; whole, box, flat, order = :reversed, dtype, convert = false)

Asks for a region of a tensor; the load writes it into the array. The keywords are those of `add_tensor!(save, …)`, and
the box may be another one than was saved. `convert = true` converts between f32, bf16 and f16. The array must keep its
size until the job has ended. Throws MISMATCH (the tensor has another shape or dtype), INVALID, UNSUPPORTED.
"""
function add_tensor!(load::Load, name::AbstractString, array::AbstractArray; layout...)
    add_tensor!(load, name, describe(array; layout...), array)
    return nothing
end

"""
    add_tensor!(load, name, desc::TensorDesc, memory; device = (:CPU, 0))

The same with a C description, into any contiguous array of enough bytes.
"""
function add_tensor!(load::Load, name::AbstractString, desc::TensorDesc, memory::Union{AbstractArray,Nothing};
                     device = (:CPU, 0))
    check_writable(memory)
    raw = Ref(desc.raw)
    kind, number = number_of(DEVICES, device[1]), device[2]
    with_memory(memory) do data, bytes
        call_alone(load.handle) do pointer, err
            ckpt_load_add_tensor(pointer, name, raw, data, bytes, kind, number, err)
        end
    end
    isnothing(memory) || push!(load.arrays, memory)
    return nothing
end

check_writable(memory) =
    isnothing(memory) || is_writable(memory) || throw(ArgumentError("a $(typeof(memory)) is read-only"))

"""
    add_object!(load, name, array; rank = 0)

Asks for the bytes of the shared object `name`, or of `rank`'s own object, in a contiguous array of at least its size
([`object`](@ref) returns the size). If `rank` has none, the option `object_policy` of the load decides. Throws
NOT_FOUND, INVALID.
"""
function add_object!(load::Load, name::AbstractString, array::AbstractArray; rank = 0)
    check_writable(array)
    with_memory(contiguous_bytes(array)) do data, bytes
        call_alone(load.handle) do pointer, err
            ckpt_load_add_object(pointer, name, rank, data, bytes, err)
        end
    end
    push!(load.arrays, array)
    return nothing
end

"Starts the load in the background and returns its `Job`. The engine uses the arrays until the job has ended."
function start(load::Load)
    job = started(CKPT_JOB_DONE, copy(load.arrays)) do out, err
        enter_alone(load.handle)
        try
            ckpt_load_start((@atomic load.handle.pointer), out, err)
        finally
            leave(load.handle)
        end
    end
    empty!(load.arrays)
    return job
end

"""
    run(load)

Loads, and returns when every requested byte is written and checked. An error about a name or a shape comes before the
first byte of an array changes; after CORRUPT, IO, GONE or CANCELLED the content of the arrays is undefined. Other
tasks go on meanwhile; an interrupt cancels the load. Throws NOT_FOUND, MISMATCH, INCOMPLETE, UNSUPPORTED, CORRUPT,
IO, GONE, CANCELLED.
"""
Base.run(load::Load) = finish(start(load))

"The names that were requested and are missing, and those that were not requested: a `Vector{Finding}`."
report(load::Load) = use(load.handle) do pointer
    findings((out, err) -> ckpt_load_report(pointer, out, err))
end

"""
    load_tensor(reader, name; as = nothing, bits = false, order = :reversed, options…) -> Array

Loads a whole tensor into a new array of the Julia type of its dtype. `as = Float32` converts f32, bf16 and f16; `bits
= true` returns the bits as unsigned integers, for dtypes without a Julia type. Options are those of `Load`. Throws
what `run(load)` throws, and ArgumentError if the dtype has no Julia type.
"""
function load_tensor(reader::Reader, name::AbstractString; as = nothing, bits = false, order = :reversed, options...)
    described = tensor(reader, name)
    type = isnothing(as) ? julia_type(described.dtype, bits) : as
    array = whole_array(type, described.shape, order)
    dtype = isnothing(as) ? described.dtype : nothing
    load = Load(reader; options...)
    try
        add_tensor!(load, name, array; order, dtype, convert = !isnothing(as))
        run(load)
    finally
        close(load)
    end
    return array
end

# A new array for a whole tensor; its shape is in C's order.
whole_array(type, shape, order) = Array{type}(undef, (order === :same ? shape : reverse(shape))...)

"""
    load_object(reader, name; rank = 0, options…) -> Vector{UInt8}

Loads the bytes of an object. Options are those of `Load` without `object_policy`: the object must exist.
"""
function load_object(reader::Reader, name::AbstractString; rank = 0, options...)
    bytes = Vector{UInt8}(undef, object(reader, name; rank).size)
    load = Load(reader; options...)
    try
        add_object!(load, name, bytes; rank)
        run(load)
    finally
        close(load)
    end
    return bytes
end
