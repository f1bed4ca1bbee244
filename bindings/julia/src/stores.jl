# Stores, their checkpoints, and sessions.

"""
    Store(uri; options…)

A directory that holds checkpoints (`"/data/run7"`, `"file:///data/run7"`) or a store in this process's memory
(`"mem:NAME"`). Opening creates nothing. May be used by several tasks at once. Options: `direct_io`, `io_engine`,
`recycle`.
"""
struct Store <: Resource
    handle::Handle{ckpt_store}
end

function Store(uri::AbstractString; options...)
    return with_options(options) do bag
        Store(made((out, err) -> ckpt_store_open(out, uri, bag, err), ckpt_store))
    end
end

"""
    checkpoints(store) -> Vector{CheckpointInfo}

All checkpoints and attempts, oldest first: by run, then token and sequence. Throws NOT_FOUND, IO.
"""
function checkpoints(store::Store)
    list = use(store.handle) do pointer
        made((out, err) -> ckpt_store_list(pointer, out, err), ckpt_list)
    end
    try
        return use(list) do pointer
            map(0:Int(ckpt_list_count(pointer))-1) do index
                out = sized(ckpt_checkpoint_info)
                checked(err -> ckpt_list_at(pointer, index, out, err))
                CheckpointInfo(out[])
            end
        end
    finally
        shut(list)
    end
end

"""
    find_checkpoint(store, selector = "latest"; run) -> CheckpointInfo

One committed checkpoint: `"latest"`, `"label:L"` or `"L"`, `"step:N"`, or an id. Of several ranks let one find it and
tell the others its `id`. Throws NOT_FOUND, IO.
"""
function find_checkpoint(store::Store, selector::AbstractString = "latest"; options...)
    out = sized(ckpt_checkpoint_info)
    with_options(options) do bag
        call((pointer, err) -> ckpt_store_find(pointer, selector, bag, out, err), store.handle)
    end
    return CheckpointInfo(out[])
end

"Removes one checkpoint by its id. Throws NOT_FOUND, CONFLICT (a reader holds it, or it is being written), IO."
function remove_checkpoint(store::Store, id::AbstractString)
    call((pointer, err) -> ckpt_store_remove(pointer, id, err), store.handle)
    return nothing
end

"""
    prune(store; keep_last, keep_every, protect, run, dry_run) -> Vector{Finding}

Removes what the retention policy does not keep, never the newest sound one; tells what was (or with `dry_run = true`
would be) removed or passed over. Throws IO.
"""
function prune(store::Store; options...)
    return with_options(options) do bag
        use(store.handle) do pointer
            findings((out, err) -> ckpt_store_prune(pointer, bag, out, err))
        end
    end
end

"""
    repair(store, id; dry_run = true, force) -> Vector{Finding}

Rebuilds a lost or damaged manifest from the parts; a dry run unless `dry_run = false`. Throws EXISTS (sound already),
INCOMPLETE, MISMATCH, CORRUPT, ABORTED, IO.
"""
function repair(store::Store, id::AbstractString; options...)
    return with_options(options) do bag
        use(store.handle) do pointer
            findings((out, err) -> ckpt_store_repair(pointer, id, bag, out, err))
        end
    end
end

"""
    import_checkpoint(store, path, label; step, options...) -> CheckpointInfo

Saves a PyTorch `.pt`, an hfai directory, a safetensors file or a Hugging Face set as a checkpoint of a run of its own.
Runs no code of the file. Blocks this thread, not the collector. Options: `run`, `verify`, `on_existing`, `compression`,
`threads`. Throws NOT_FOUND, FORMAT, UNSUPPORTED, CORRUPT, EXISTS, IO, NO_SPACE.
"""
function import_checkpoint(store::Store, path::AbstractString, label::AbstractString; step = nothing, options...)
    out = sized(ckpt_checkpoint_info)
    with_options(options) do bag
        call(store.handle) do pointer, err
            ckpt_import(pointer, path, label, something(step, -1), bag, out, err)
        end
    end
    return CheckpointInfo(out[])
end

"""
    Session(store; rank = 0, world_size = 1, string = nothing, options…)

One start of all ranks of a run; opening a new one fences the older. Rank 0 opens without `string` and sends
[`session_string`](@ref) to the others, which pass it here; or all set `rendezvous = true` and meet through the store,
which blocks this thread (not the collector) until the last one comes. Options: `run`, `timeout_ms`, `rendezvous`,
`chunk_bytes`, `large_tensor_bytes`, `arena_bytes`. Throws CONFLICT, FENCED, MISMATCH, TIMEOUT, UNSUPPORTED, IO,
NO_SPACE.
"""
struct Session <: Resource
    handle::Handle{ckpt_session}
end

function Session(store::Store; rank = 0, world_size = 1, string = nothing, options...)
    text = something(string, C_NULL)
    return with_options(options) do bag
        use(store.handle) do pointer
            Session(made((out, err) -> ckpt_session_open(out, pointer, rank, world_size, text, bag, err), ckpt_session))
        end
    end
end

"What the other ranks pass to `Session` as `string`."
session_string(session::Session) = use(pointer -> unsafe_string(ckpt_session_string(pointer)), session.handle)
