# Readers: each is an immutable view of one committed checkpoint.

"""
    Reader(store, selector = "latest"; options…)

Opens a committed checkpoint; `selector` as in [`find_checkpoint`](@ref). It reads and checks the manifest, but no
tensor data. It warns of newer checkpoints that cannot be loaded; [`report`](@ref) lists them. While the reader is open,
pruning keeps the checkpoint. Several tasks may use it at once. Options: those used by `reader`. Throws NOT_FOUND,
INCOMPLETE, CORRUPT, FORMAT, REVISION, ABORTED, GONE, IO.
"""
struct Reader <: Resource
    handle::Handle{ckpt_reader}
end

function Reader(store::Store, selector::AbstractString = "latest"; options...)
    reader = with_options(options) do bag
        use(store.handle) do pointer
            Reader(made((out, err) -> ckpt_reader_open(out, pointer, selector, bag, err), ckpt_reader))
        end
    end
    for finding in report(reader)
        @warn finding.text
    end
    return reader
end

# f(pointer, out, err) fills a C struct of type T; Info(struct) copies it while the handle keeps its texts alive.
function told(f, handle::Handle, ::Type{T}, ::Type{Info}) where {T,Info}
    return use(handle) do pointer
        out = sized(T)
        checked(err -> f(pointer, out, err))
        Info(out[])
    end
end

"The checkpoint that the reader opened: a `CheckpointInfo`."
info(reader::Reader) = told(ckpt_reader_info, reader.handle, ckpt_checkpoint_info, CheckpointInfo)

"""
    report(reader) -> Vector{Finding}

A `:PASSED_OVER` for each newer checkpoint of the run that cannot be loaded, newest first, with its status: the progress
that a trainer loses by going on from this one. Empty for a checkpoint that was named by its id.
"""
report(reader::Reader) = use(reader.handle) do pointer
    findings((out, err) -> ckpt_reader_report(pointer, out, err))
end

"All tensors and aliases, in the order of their names' bytes."
function tensors(reader::Reader)
    count = use(ckpt_reader_tensor_count, reader.handle)
    return map(0:Int(count)-1) do index
        told((pointer, out, err) -> ckpt_reader_tensor_at(pointer, index, out, err), reader.handle, ckpt_tensor_info,
             TensorInfo)
    end
end

"One tensor by its name. Throws NOT_FOUND."
tensor(reader::Reader, name::AbstractString) =
    told((pointer, out, err) -> ckpt_reader_tensor_find(pointer, name, out, err), reader.handle, ckpt_tensor_info,
         TensorInfo)

"How an alias views its target: a `TensorDesc` with shape, strides and offset. Throws NOT_FOUND."
alias(reader::Reader, name::AbstractString) =
    told((pointer, out, err) -> ckpt_reader_alias_find(pointer, name, out, err), reader.handle, ckpt_tensor_desc,
         TensorDesc)

"The segments of a tensor, in order: where its bytes lie."
segments(reader::Reader, name::AbstractString) =
    map(index -> segment(reader, name, index), 1:tensor(reader, name).segment_count)

"One segment of a tensor by its number, from 1."
segment(reader::Reader, name::AbstractString, index::Integer) =
    told((pointer, out, err) -> ckpt_reader_segment_at(pointer, name, index - 1, out, err), reader.handle,
         ckpt_segment_info, SegmentInfo)

"All objects, ordered by name, then by rank."
function objects(reader::Reader)
    count = use(ckpt_reader_object_count, reader.handle)
    return map(0:Int(count)-1) do index
        told((pointer, out, err) -> ckpt_reader_object_at(pointer, index, out, err), reader.handle, ckpt_object_info,
             ObjectInfo)
    end
end

"The shared object `name`, or `rank`'s own. Throws NOT_FOUND."
object(reader::Reader, name::AbstractString; rank = 0) =
    told((pointer, out, err) -> ckpt_reader_object_find(pointer, name, rank, out, err), reader.handle,
         ckpt_object_info, ObjectInfo)

"All part files, in order."
parts(reader::Reader) = map(index -> part(reader, index), 0:info(reader).part_count-1)

"One part by its number, from 0 as in its file name."
part(reader::Reader, index::Integer) =
    told((pointer, out, err) -> ckpt_reader_part_at(pointer, index, out, err), reader.handle, ckpt_part_info, PartInfo)

"The attributes of the checkpoint, or of a tensor: pairs ordered by key."
function attrs(reader::Reader; tensor = nothing)
    of = something(tensor, C_NULL)
    return use(reader.handle) do pointer
        map(0:Int(ckpt_reader_attr_count(pointer, of))-1) do index
            key, value = Ref{Cstring}(C_NULL), Ref{Cstring}(C_NULL)
            checked(err -> ckpt_reader_attr_at(pointer, of, index, key, value, err))
            unsafe_string(key[]) => unsafe_string(value[])
        end
    end
end

"One attribute of the checkpoint, or of a tensor; `nothing` if there is none."
function attr(reader::Reader, key::AbstractString; tensor = nothing)
    of = something(tensor, C_NULL)
    return use(pointer -> text(ckpt_reader_attr(pointer, of, key)), reader.handle)
end

"""
    map_tensor(reader, name; order = :reversed, bits = false, options…)

A whole tensor without a copy, as a `MappedTensor`. Its bytes must be stored uncompressed and in one piece, where locks
keep them (or `map_unlocked = 1`); otherwise it throws UNSUPPORTED. Checksums are verified first unless
`verify = false`. `bits = true` returns the bits as unsigned integers, for dtypes without a Julia type. Options: those
used by `map`. Throws NOT_FOUND, UNSUPPORTED, CORRUPT, GONE, IO.
"""
function map_tensor(reader::Reader, name::AbstractString; order = :reversed, bits = false, options...)
    held = Use(reader.handle)
    data, size = Ref{Ptr{Cvoid}}(C_NULL), Ref{UInt64}(0)
    described = tensor(reader, name)
    with_options(options) do bag
        call((pointer, err) -> ckpt_reader_map(pointer, name, bag, data, size, err), reader.handle)
    end
    return mapped(described.dtype, data[], described.shape, row_major_strides(described.shape), held, order, bits)
end

"The bytes of a whole tensor without a copy, row-major and without gaps; for dtypes without a Julia type."
function map_bytes(reader::Reader, name::AbstractString; options...)
    held = Use(reader.handle)
    data, size = Ref{Ptr{Cvoid}}(C_NULL), Ref{UInt64}(0)
    with_options(options) do bag
        call((pointer, err) -> ckpt_reader_map(pointer, name, bag, data, size, err), reader.handle)
    end
    return MappedTensor{UInt8,1}(Ptr{UInt8}(data[]), (Int(size[]),), (1,), held)
end

"""
    verify(reader; options…) -> Job

Checks a checkpoint in the background. `wait` for the job; then [`report`](@ref) lists all damage, of which there may be
none. Options: those used by `verify`.
"""
function verify(reader::Reader; options...)
    return with_options(options) do bag
        use(reader.handle) do pointer
            started((out, err) -> ckpt_reader_verify(pointer, bag, out, err), CKPT_JOB_DONE, Any[])
        end
    end
end

"""
    diff(a, b; options…) -> Vector{Finding}

Compares two checkpoints: names, dtypes, shapes, objects and attributes, then the elements. If all are equal the result
is empty. Blocks this thread, but not the garbage collector. Options: those used by `diff`. Throws CORRUPT, IO, GONE.
"""
function Base.diff(a::Reader, b::Reader; options...)
    return with_options(options) do bag
        use(a.handle) do first
            use(b.handle) do second
                findings((out, err) -> ckpt_reader_diff(first, second, bag, out, err))
            end
        end
    end
end

"""
    copy_checkpoint(reader, store; options…) -> Vector{Finding}

Makes the same checkpoint in another store, byte for byte, and checks every byte on its way. An unfinished copy is no
checkpoint; the next call goes on with it. One that is there already is fine. Returns what was there, and whether the
copy is foreign in that store. Blocks this thread, but not the garbage collector. Options: those used by `copy`. Throws
EXISTS (another checkpoint has its name there), CORRUPT, FORMAT, INCOMPLETE, GONE, MISMATCH, CONFLICT, ABORTED,
COMMIT_UNKNOWN (copy again), NO_SPACE, IO.
"""
function copy_checkpoint(reader::Reader, store::Store; options...)
    return with_options(options) do bag
        use(reader.handle) do from
            use(store.handle) do to
                findings((out, err) -> ckpt_reader_copy(from, to, bag, out, err))
            end
        end
    end
end

"""
    export_checkpoint(reader, path; options...)

Writes the checkpoint as `format` "safetensors", "pt", "hfai", "dcp", "composer", "olmo", "olmo-safetensors",
"torchtune", "meta" or "recis" to a path that must not exist yet. Blocks this thread, but not the garbage collector.
Options: those used by `export`. Throws EXISTS, UNSUPPORTED, MISMATCH, FORMAT, CORRUPT, IO, NO_SPACE.
"""
function export_checkpoint(reader::Reader, path::AbstractString; options...)
    with_options(options) do bag
        call((pointer, err) -> ckpt_export(pointer, path, bag, err), reader.handle)
    end
    return nothing
end
