# Saves: one rank's share of one checkpoint.

"""
    Save(session, label; step = nothing, options…)

Make it, add, then `run` or `start` it once. Every rank of the session does the same for the same label: 1-200 of
`[A-Za-z0-9._=+-]` without a leading dot; `step` is 0 or more, or `nothing`. One task at a time. Options: `on_existing`,
`compression`, `threads`, `staging_bytes`, `timeout_ms`, `wait`, `keep_last`, `keep_every`, `protect`. Throws INVALID,
MISMATCH.
"""
struct Save <: Resource
    handle::Handle{ckpt_save}
    arrays::Vector{Any}  # what it was given, until its job holds them
end

function Save(session::Session, label::AbstractString; step = nothing, options...)
    return with_options(options) do bag
        use(session.handle) do pointer
            number = something(step, -1)
            Save(made((out, err) -> ckpt_save_new(out, pointer, label, number, bag, err), ckpt_save), Any[])
        end
    end
end

"""
    add_tensor!(save, name, array; whole, box, flat, order = :reversed, dtype, replica)

Adds this rank's region of tensor `name`. The array is not copied: it must keep its size and its elements from `run` or
`start` until the job is staged. Any strided array will do: `Array`, views, `PermutedDimsArray`, `reinterpret`ed and
memory-mapped ones, 0-dimensional ones for scalars.

* `order = :reversed`: the tensor's shape is the array's size reversed, memory as it is. `:same`: the shape is the size
  in the same order, told to C by strides; elements `a[i, j]` stay at `[i, j]` (0-based) in other languages
* the array is the whole tensor; or `whole` is the size of that one and `box` a tuple of ranges, 1-based and in the
  order of the array's dimensions, of which the array is the part; or `flat` is a range of the tensor's linear indices
  (with `:reversed` those of Julia) that contiguous memory holds
* `dtype`: what the bits are, where Julia's type does not say it: `dtype = :bf16` for an array of UInt16
* `replica = (group, index, count)`: who else holds this region; by default every rank for whole tensors, else none

Throws INVALID, EXISTS (the name was added), UNSUPPORTED; ArgumentError and DimensionMismatch for what the array is.
"""
function add_tensor!(save::Save, name::AbstractString, array::AbstractArray; layout...)
    add_tensor!(save, name, describe(array; layout...), array)
    return nothing
end

"""
    add_tensor!(save, name, desc::TensorDesc, memory; device = (:CPU, 0))

The same in C's terms: `memory` is any contiguous array of enough bytes, or `nothing` for an empty region.
"""
function add_tensor!(save::Save, name::AbstractString, desc::TensorDesc, memory::Union{AbstractArray,Nothing};
                     device = (:CPU, 0))
    raw = Ref(desc.raw)
    kind, number = number_of(DEVICES, device[1]), device[2]
    with_memory(memory) do data, bytes
        call_alone(save.handle) do pointer, err
            ckpt_save_add_tensor(pointer, name, raw, data, bytes, kind, number, err)
        end
    end
    isnothing(memory) || push!(save.arrays, memory)
    return nothing
end

"""
    add_object!(save, name, bytes; media_type = "application/octet-stream", scope = :SHARED)

Adds named bytes (text or a contiguous array), which are copied at once. `:SHARED`: rank 0's are written and others'
must be the same; `:PER_RANK`: each rank has its own. Throws INVALID, EXISTS.
"""
function add_object!(save::Save, name::AbstractString, bytes::Union{AbstractString,AbstractArray};
                     media_type = "application/octet-stream", scope = :SHARED)
    kind = number_of(OBJECT_SCOPES, scope)
    with_memory(contiguous_bytes(bytes)) do data, size
        call_alone(save.handle) do pointer, err
            ckpt_save_add_object(pointer, name, media_type, kind, data, size, err)
        end
    end
    return nothing
end

contiguous_bytes(text::AbstractString) = codeunits(String(text))
function contiguous_bytes(array::AbstractArray)
    is_contiguous(size(array), memory_strides(array)) || throw(ArgumentError("the bytes are not in one piece"))
    return array
end

"""
    add_alias!(save, name, target)          a second name for the whole of `target` (tied weights)
    add_alias!(save, name, target, view)    for a view of it: a TensorDesc with shape, strides and offset

Any ranks may add it; those that do must agree. Throws INVALID, EXISTS.
"""
function add_alias!(save::Save, name::AbstractString, target::AbstractString, view::TensorDesc)
    raw = Ref(view.raw)
    call_alone((pointer, err) -> ckpt_save_add_alias(pointer, name, target, raw, err), save.handle)
    return nothing
end
function add_alias!(save::Save, name::AbstractString, target::AbstractString)
    whole = Ptr{ckpt_tensor_desc}(C_NULL)
    call_alone((pointer, err) -> ckpt_save_add_alias(pointer, name, target, whole, err), save.handle)
    return nothing
end

"""
    set_attr!(save, key, value; tensor = nothing)

Sets an attribute of the checkpoint (rank 0's are written) or of a tensor that this rank adds. Key: 1-255 bytes; value:
UTF-8 up to 1 MiB. Throws INVALID.
"""
function set_attr!(save::Save, key::AbstractString, value::AbstractString; tensor = nothing)
    of = something(tensor, C_NULL)
    call_alone((pointer, err) -> ckpt_save_set_attr(pointer, of, key, value, err), save.handle)
    return nothing
end

"The id that the checkpoint will have once it is committed."
id(save::Save) = use(pointer -> unsafe_string(ckpt_save_id(pointer)), save.handle)

"""
    start(save; in_place = false) -> Job

Saves in the background. The arrays may change again once the job is `:STAGED`; they are kept alive until then. They are
copied within `staging_bytes`; with `in_place = true` they are written from where they lie, and `:STAGED` comes with
`:WRITTEN`.
"""
function start(save::Save; in_place = false)
    begin_save = in_place ? ckpt_save_start_in_place : ckpt_save_start
    job = started(CKPT_JOB_COMMITTED, copy(save.arrays)) do out, err
        enter_alone(save.handle)
        try
            begin_save((@atomic save.handle.pointer), out, err)
        finally
            leave(save.handle)
        end
    end
    empty!(save.arrays)
    return job
end

"""
    run(save)

Saves and returns when the outcome is known: on rank 0 that the checkpoint is durable, complete and committed; on other
ranks that it is committed (with `wait = false`, that their part is durable). Other tasks go on meanwhile; an interrupt
cancels the save. Throws EXISTS, MISMATCH, INCOMPLETE, FENCED, ABORTED, TIMEOUT, CANCELLED, COMMIT_UNKNOWN, CONFLICT,
IO, NO_SPACE; after any of them but COMMIT_UNKNOWN nothing was committed.
"""
Base.run(save::Save) = finish(start(save; in_place = true))
