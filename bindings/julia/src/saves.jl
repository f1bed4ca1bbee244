# Saves: what one rank adds to one checkpoint.

"""
    Save(session, label; step = nothing, options…)

Make a save, add tensors and objects, then `run` or `start` it once. Every rank of the session does so with the same
label: 1-200 of `[A-Za-z0-9._=+-]` without a leading dot. `step` is 0 or more, or `nothing`. Only one task at a time
may use a save. Options: `on_existing`, `compression`, `held_by`, `replicas`, `threads`, `staging_bytes`, `timeout_ms`,
`wait`, `keep_last`, `keep_every`, `protect`, `incremental`, `base`. Throws INVALID, MISMATCH, and what an earlier save
of the session threw that failed in the background and of which nobody was told: the other ranks then get ABORTED.
"""
struct Save <: Resource
    handle::Handle{ckpt_save}
    label::String
    saves::Saves  # the session's
    arrays::Vector{Any}  # the arrays added to it, until its job holds them
end

function Save(session::Session, label::AbstractString; step = nothing, options...)
    handle = with_options(options) do bag
        use(session.handle) do pointer
            number = something(step, -1)
            made((out, err) -> ckpt_save_new(out, pointer, label, number, bag, err), ckpt_save)
        end
    end
    return unless_failed(Save(handle, String(label), session.saves, Any[]))
end

# The save, unless an earlier one of its session failed in the background and nobody was told.
function unless_failed(save::Save)
    earlier = failure(save.saves)
    isnothing(earlier) && return save
    give_up(save, earlier.message)
    close(save)
    throw(earlier)
end

"""
    Ckpt.give_up(save, reason)

For a rank that cannot save, instead of `run` or `start`: the other ranks' saves end at once with ABORTED and the
reason. Throws INVALID once the save has been run or started.
"""
function give_up(save::Save, reason::AbstractString)
    call_alone((pointer, err) -> ckpt_save_give_up(pointer, reason, err), save.handle)
    return nothing
end

"""
    add_tensor!(save, name, array; whole, box, flat, order = :reversed, dtype, replica, first_replica)

Adds this rank's region of tensor `name`. The array is not copied: it must keep its size and its elements from `run` or
`start` until the job is staged. Any strided array will do: `Array`, views, `PermutedDimsArray`, `reinterpret`ed and
memory-mapped arrays, 0-dimensional ones for scalars.

* `order = :reversed`: the tensor's shape is the array's size reversed, and the elements are stored in the array's
  order. `:same`: the shape is the size in the same order, and `a[i, j]` is `t[i - 1, j - 1]` in other languages
* Without `whole` the array is the whole tensor. Else `whole` is the tensor's size, and `box` says which part of it
  the array is: a tuple of ranges, from 1, in the order of the array's dimensions. Or `flat` is a range of the
  tensor's linear indices (with `:reversed` those of Julia), which the array holds in contiguous memory
* `dtype`: the dtype of the bits, if the Julia type does not say it: `dtype = :bf16` for an array of UInt16
* `first_replica = true`: the values of the replica group's first member count, and those of the others may differ
* `replica = (group, index, count)`: which ranks hold this region; by default all of them for a whole tensor, else only
  this one

Throws INVALID, EXISTS (the name was added already), UNSUPPORTED; ArgumentError and DimensionMismatch if the array
does not fit.
"""
function add_tensor!(save::Save, name::AbstractString, array::AbstractArray; layout...)
    add_tensor!(save, name, describe(array; layout...), array)
    return nothing
end

"""
    add_tensor!(save, name, desc::TensorDesc, memory; device = (:CPU, 0))

The same with a C description: `memory` is any contiguous array of enough bytes, or `nothing` for an empty region.
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

Adds named bytes (text or a contiguous array), which are copied at once. `:SHARED`: rank 0's are written, and those of
other ranks must be the same. `:PER_RANK`: each rank has its own. Throws INVALID, EXISTS.
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
    add_alias!(save, name, target, view)    a name for a view of it: a TensorDesc with shape, strides and offset

One rank may add it, or several that agree. Throws INVALID, EXISTS.
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

Sets an attribute of the checkpoint (rank 0's are written) or of a tensor that this rank adds. The key has 1-255
bytes, the value is UTF-8 of at most 1 MiB. Throws INVALID.
"""
function set_attr!(save::Save, key::AbstractString, value::AbstractString; tensor = nothing)
    of = something(tensor, C_NULL)
    call_alone((pointer, err) -> ckpt_save_set_attr(pointer, of, key, value, err), save.handle)
    return nothing
end

"""
    report(save) -> Vector{Finding}

Once the save has ended, on rank 0: what retention removed, and what it could not remove and why; before that `:ANEW`,
of which `run`, `wait` and `close` warn too, if the save does not go on from what its run has. Empty on other ranks.
Throws INVALID before the end.
"""
report(save::Save) = use(save.handle) do pointer
    findings((out, err) -> ckpt_save_report(pointer, out, err))
end

"The id that the checkpoint will have once it is committed."
id(save::Save) = use(pointer -> unsafe_string(ckpt_save_id(pointer)), save.handle)

"""
    start(save; in_place = false) -> Job

Saves in the background, and returns when it is staged: the arrays may change again. The save belongs to the session, so
the job may be dropped. A failure, also before it was staged, is that of the job's `wait`; if nobody waits, that of the
session's next `Save` or of `close(session)`. With `in_place = true` it returns at once: the arrays are written from
where they lie, and must not change until the job is `:STAGED`, which is when it is `:WRITTEN`.
"""
function start(save::Save; in_place = false)
    begin_save = in_place ? ckpt_save_start_in_place : ckpt_save_start
    job = started(CKPT_JOB_COMMITTED, copy(save.arrays), save.saves, save.label) do out, err
        enter_alone(save.handle)
        try
            begin_save((@atomic save.handle.pointer), out, err)
        finally
            leave(save.handle)
        end
    end
    empty!(save.arrays)
    in_place || until_staged(job.handle)
    return job
end

"""
    run(save)

Saves, and returns when the checkpoint is durable, complete and committed; on ranks other than 0 with `wait = false`,
when this rank's part is durable. Other tasks go on meanwhile; an interrupt cancels the save. Throws EXISTS, MISMATCH,
INCOMPLETE, FENCED, ABORTED, TIMEOUT, CANCELLED, COMMIT_UNKNOWN, CONFLICT, IO, NO_SPACE; after any of them but
COMMIT_UNKNOWN nothing was committed.
"""
Base.run(save::Save) = finish(start(save; in_place = true))
