# Stores, their checkpoints, and sessions.

"""
    Store(uri; options…)

A directory that holds checkpoints (`"/data/run7"`, `"file:///data/run7"`), a prefix in a bucket of an object store
(`"s3://bucket/run7"`), a directory that a web server shows (`"https://host/run7"`; read-only, and checkpoints are
opened by their ids), or a store in the memory of this process (`"mem:NAME"`). Opening it creates nothing. Several
tasks may use it at once. Options: those used by `store`.
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

All checkpoints and attempts, oldest first: by run, then by token and sequence. Throws NOT_FOUND, IO.
"""
checkpoints(store::Store) = use(store.handle) do pointer
    listed((out, err) -> ckpt_store_list(pointer, out, err), ckpt_list, ckpt_list_count, ckpt_list_at,
           ckpt_checkpoint_info, CheckpointInfo)
end

"""
    runs(store) -> Vector{RunInfo}

All runs, by name: those that a session has opened and those that have checkpoints. Throws NOT_FOUND, IO.
"""
runs(store::Store) = use(store.handle) do pointer
    listed((out, err) -> ckpt_store_runs(pointer, out, err), ckpt_runs, ckpt_runs_count, ckpt_runs_at,
           ckpt_run_info, RunInfo)
end

"""
    find_checkpoint(store, selector = "latest"; options…) -> CheckpointInfo

One committed checkpoint. `selector` is `"latest"`, `"label:L"` or `"L"`, `"name:N"`, `"step:N"`, or an id. With several
ranks let one find it and send its `id` to the others. Newer checkpoints that cannot be loaded are passed over and
counted in `passed_over`; with `on_damaged = "error"` it throws what is wrong with the newest. Options: those used by
`find`. Throws NOT_FOUND, CORRUPT, FORMAT, REVISION, IO.
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
Nothing of this store removes that checkpoint any more, neither retention nor `remove_checkpoint`, until a call with
`keep = false` takes that back. Throws NOT_FOUND, CONFLICT (somebody has begun to remove it), IO.
"""
function keep_checkpoint(store::Store, id::AbstractString, keep::Bool = true)
    call((pointer, err) -> ckpt_store_keep(pointer, id, Int32(keep), err), store.handle)
    return nothing
end

"""
That checkpoint of the run has the name from now on, and no other one: `"name:N"` selects it. With `id = nothing` none
has it. A name keeps no checkpoint: `keep_checkpoint` does. Throws NOT_FOUND, INVALID, IO.
"""
function name_checkpoint(store::Store, name::AbstractString, id::Union{AbstractString,Nothing}; run = "main")
    call((pointer, err) -> ckpt_store_name(pointer, run, name, something(id, ""), err), store.handle)
    return nothing
end

"""
    prune(store; options…) -> Vector{Finding}

Removes what the retention policy does not keep of the numbered checkpoints, whose label has their step in it
("step-100"; "best" stays), but never the newest sound one. Returns what it removed (or, with `dry_run = true`, would
remove) and what it kept because it is in use. Options: those used by `prune`. Throws INVALID (`keep_every` or `protect`
without `keep_last`), IO.
"""
function prune(store::Store; options...)
    return with_options(options) do bag
        use(store.handle) do pointer
            findings((out, err) -> ckpt_store_prune(pointer, bag, out, err))
        end
    end
end

"""
    repair(store, id; options…) -> Vector{Finding}

Rebuilds a lost or damaged manifest from the parts; only reports what it would do unless `dry_run = false`. Options:
those used by `repair`. Throws EXISTS (the manifest is sound), INCOMPLETE, MISMATCH, CORRUPT, ABORTED, IO.
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

Saves a PyTorch `.pt` file, a DCP or hfai directory, a safetensors file or a Hugging Face set as a checkpoint of a run
of its own. `path` may be the address of a file on a web server, or of a file or directory of `s3://`. Runs no code in
the file. Imports into one run take turns. Blocks this thread, but not the garbage collector. Options: those used by
`import`. Throws NOT_FOUND, FORMAT, UNSUPPORTED, CORRUPT, EXISTS, TIMEOUT, FENCED, GONE, IO, NO_SPACE.
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

One start of all ranks of a run. A new session of a run fences its older ones: they can no longer save. Rank 0 opens
its session without `string` and sends [`session_string`](@ref) to the other ranks, which pass it as `string`. Or all
pass `rendezvous = true` and meet through the store, which blocks this thread (but not the garbage collector) until
the last one comes. Options: those used by `session`. Throws CONFLICT, FENCED, MISMATCH, TIMEOUT, UNSUPPORTED, IO,
NO_SPACE.
"""
struct Session <: Resource
    handle::Handle{ckpt_session}
    saves::Saves  # in the background
end

function Session(store::Store; rank = 0, world_size = 1, string = nothing, options...)
    text = something(string, C_NULL)
    return with_options(options) do bag
        use(store.handle) do pointer
            handle = made((out, err) -> ckpt_session_open(out, pointer, rank, world_size, text, bag, err), ckpt_session)
            Session(handle, Saves())
        end
    end
end

"The text that the other ranks pass to `Session` as `string`."
session_string(session::Session) = use(pointer -> unsafe_string(ckpt_session_string(pointer)), session.handle)

"""
    mirror(session) -> Job

On rank 0 of a store with option `mirror`: a job that is done once the mirror has all that was committed before this
call. It fails with the first failure from now on, while copying goes on, unless that was FENCED; its [`report`](@ref)
names what will not be copied. Closing the job ends the waiting, not the copying; `close(session)` waits for what is
still to be copied. Throws INVALID (no mirror, or not rank 0).
"""
function mirror(session::Session)
    return use(session.handle) do pointer
        started((out, err) -> ckpt_session_mirror(pointer, out, err), CKPT_JOB_DONE, Any[])
    end
end

"""
    close(session)

Waits for the saves in the background, then closes the session. Throws the failure of the first that failed and of which
nobody was told by a `wait` or by `Save`. In a `finally` or `catch` that an exception has reached, it cancels them at
once, so that other ranks do not wait.
"""
function Base.close(session::Session)
    failed = finish(session.saves)
    shut(session.handle)
    isnothing(failed) || throw(failed)
    return nothing
end
