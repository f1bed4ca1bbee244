# When a training saves, what is kept, and what it starts from.

"""
    Keeper(store; rank = 0, world_size = 1, options…)

The policy of a run, and what it knows of its checkpoints. [`Checkpointer`](@ref) has the loop around it. Only one task
at a time may use a keeper. Options: `run`, `every`, `keep_last`, `keep_every`, `keep_best`, `label`, `on_existing`,
`fresh`, `ranks_agree`, `time_limit`, `time_margin_ms`, `on_damaged`, `timeout_ms`. Throws INVALID.
"""
struct Keeper <: Resource
    handle::Handle{ckpt_keeper}
end

function Keeper(store::Store; rank = 0, world_size = 1, options...)
    return with_options(options) do bag
        use(store.handle) do pointer
            Keeper(made((out, err) -> ckpt_keeper_new(out, pointer, rank, world_size, bag, err), ckpt_keeper))
        end
    end
end

"What the last call should tell people, or `nothing`."
warning(keeper::Keeper) = use(pointer -> text(ckpt_keeper_warning(pointer)), keeper.handle)

"Tells a number of the next step: `kind` is `:COUNTER` (\"epoch\", \"token\", …) or `:METRIC`. Throws INVALID."
function tell(keeper::Keeper, kind::Symbol, name::AbstractString, value::Real)
    number = number_of(KEEPERS, kind)
    call_alone((pointer, err) -> ckpt_keeper_tell(pointer, number, name, Float64(value), err), keeper.handle)
    return nothing
end

"""
    Ckpt.votes(keeper, step; due = false) -> Vector{Int64}

Says that `step` is done. The ranks combine these numbers, each by its maximum, and pass them to [`Ckpt.decide`](@ref).
`due = true`: a rule of the caller's own asks for a save. Throws INVALID.
"""
function votes(keeper::Keeper, step::Integer; due = false)
    own = zeros(Int64, CKPT_KEEPER_VOTES)
    call_alone((pointer, err) -> ckpt_keeper_step(pointer, step, due, own, err), keeper.handle)
    return own
end

"Says that `step` is done, which is saved whatever `every` says. Throws INVALID."
function note(keeper::Keeper, step::Integer)
    call_alone((pointer, err) -> ckpt_keeper_step(pointer, step, false, C_NULL, err), keeper.handle)
    return nothing
end

"Whether the ranks must combine their votes, since one alone may want a save."
needs_votes(keeper::Keeper) = use(ckpt_keeper_needs_votes, keeper.handle) != 0

"""
    Ckpt.decide(keeper, votes = nothing)

What all ranks do now: `:GO_ON`, `:SAVE` or `:SAVE_AND_STOP`. Without `votes` counters decide. Throws INVALID, MISMATCH.
"""
function decide(keeper::Keeper, combined = nothing)
    what = Ref{Int32}(0)
    numbers = isnothing(combined) ? C_NULL : combined
    call_alone((pointer, err) -> ckpt_keeper_decide(pointer, numbers, what, err), keeper.handle)
    return name_of(KEEPER_GO_ONS, what[])
end

"Asks to stop, for a signal's number or 1000, the time limit: the next step of all ranks saves. Any task."
stop(keeper::Keeper, why::Integer) = use(pointer -> ckpt_keeper_stop(pointer, why), keeper.handle)

"""
    Ckpt.catch_signal(keeper, number)

Does [`Ckpt.stop`](@ref) when that signal comes. Julia keeps SIGINT, SIGTERM, SIGQUIT and SIGUSR1 for itself, so ask for
another: `sbatch --signal=USR2@120` and number 12. Throws INVALID.
"""
function catch_signal(keeper::Keeper, number::Integer)
    call_alone((pointer, err) -> ckpt_keeper_catch(pointer, number, err), keeper.handle)
    return nothing
end

"Why the training should stop, or `nothing`."
stopping(keeper::Keeper) = use(pointer -> text(ckpt_keeper_stopping(pointer)), keeper.handle)

"""
    Ckpt.plan(keeper, label = nothing) -> String

How all ranks save the step that was told last; rank 0 sends it to the others. A `label` of your own stays for ever.
Throws INVALID, IO.
"""
function plan(keeper::Keeper, label = nothing)
    out, name = Ref{Cstring}(C_NULL), something(label, C_NULL)
    call_alone((pointer, err) -> ckpt_keeper_plan(pointer, name, out, err), keeper.handle)
    return unsafe_string(out[])
end

"""
    Ckpt.begin_save(keeper, session, plan; options…) -> Union{Save,Nothing}

The save of a plan; `nothing` if that was just saved. Takes the options of [`Save`](@ref), and throws what it throws.
"""
function begin_save(keeper::Keeper, session::Session, how::AbstractString; options...)
    handle = with_options(options) do bag
        use(session.handle) do place
            out = Ref{Ptr{ckpt_save}}(C_NULL)
            call_alone((pointer, err) -> ckpt_keeper_begin(out, pointer, place, how, bag, err), keeper.handle)
            out[] == C_NULL ? nothing : Handle(out[])
        end
    end
    isnothing(handle) && return nothing
    label = use(pointer -> unsafe_string(ckpt_save_id(pointer)), handle)
    return unless_failed(Save(handle, label, session.saves, Any[]))
end

"The id of the newest checkpoint that this keeper has committed, or `nothing`."
saved(keeper::Keeper) = use(pointer -> text(ckpt_keeper_saved(pointer)), keeper.handle)

"""
    Ckpt.find(keeper, selector = "latest") -> Union{String,Nothing}

The id of the checkpoint to load; `nothing` if there is none yet for "latest". "best" goes by `keep_best`, or as the
metrics of the checkpoints tell; "best:val_loss:min" says it. Throws NOT_FOUND, INVALID, CORRUPT, IO.
"""
function find(keeper::Keeper, selector::AbstractString = "latest")
    out = Ref{Cstring}(C_NULL)
    call_alone((pointer, err) -> ckpt_keeper_find(pointer, selector, out, err), keeper.handle)
    return text(out[])
end

"Says that the load of what `find` gave has failed so. Throws the same, unless the one before may do."
function pass_over(keeper::Keeper, failed::CkptError)
    call_alone((pointer, err) -> ckpt_keeper_pass_over(pointer, failed.code, failed.message, err), keeper.handle)
    return nothing
end

"Says that the training goes on from this checkpoint. Throws IO."
function restored(keeper::Keeper, reader::Reader)
    use(reader.handle) do place
        call_alone((pointer, err) -> ckpt_keeper_restored(pointer, place, err), keeper.handle)
    end
    return nothing
end

"The numbers that were told with the checkpoint that was restored: of `:METRIC` or `:COUNTER`."
function numbers(keeper::Keeper, kind::Symbol)
    which, found, value = number_of(KEEPERS, kind), Dict{String,Float64}(), Ref{Float64}(0)
    use(keeper.handle) do pointer
        while (name = text(ckpt_keeper_number_at(pointer, which, length(found), value))) !== nothing
            found[name] = value[]
        end
    end
    return found
end

# ---- the loop around it ----

"""
    Checkpointer(store; rank = 0, world_size = 1, string = nothing, most = identity, first = identity, options…)

Saves a training as it goes on, keeps what the policy says, and restores the newest checkpoint that is sound:

    checkpointer = Checkpointer(Store("/data/run7"); every = "500 steps", keep_last = 3)
    start = restore(reader -> (weights .= load_tensor(reader, "w")), checkpointer)
    for n in something(start, 0)+1:steps
        train!(weights)
        step!(save -> add_tensor!(save, "w", weights), checkpointer, n; metrics = ("loss" => loss,))
        isnothing(Ckpt.stopping(checkpointer)) || break
    end
    close(checkpointer)

Several ranks give two functions: `most(votes)` returns the numbers of all ranks, each by its maximum (MPI's
`Allreduce(votes, max)`), and `first(text)` returns rank 0's text. Without them set `ranks_agree = false`: each rank
then decides by counters. Options are those of [`Keeper`](@ref), [`Session`](@ref) and [`Save`](@ref).
"""
mutable struct Checkpointer
    store::Store
    keeper::Keeper
    session::Union{Session,Nothing}
    job::Union{Job,Nothing}
    most::Any
    first::Any
    settings::Any
end

function Checkpointer(store::Store; rank = 0, world_size = 1, string = nothing, most = identity, first = identity,
                      options...)
    keeper = Keeper(store; rank, world_size, options...)
    anew = get(options, :fresh, false) in (true, 1) ? (; continue_from = "none") : (;)
    return Checkpointer(store, keeper, nothing, nothing, most, first, (; rank, world_size, string, anew..., options...))
end

warn_people(checkpointer) = (said = warning(checkpointer.keeper); isnothing(said) || @warn said)

# Which of the settings a call takes, by what the library says of each.
function settings_of(checkpointer, call)
    known = Set(Symbol(one.key) for one in options() if call in split(one.used_by))
    return (; (key => value for (key, value) in pairs(checkpointer.settings) if key in known)...)
end

"""
    step!(add, checkpointer, n; metrics = (), counters = (), due = false) -> Union{String,Nothing}

Says that step `n` is done. If a save is due, `add(save)` adds the state, the save goes on in the background, and the id
is returned. After a signal, or at the time limit, it returns once the checkpoint is committed. Throws the failure of
the save before.
"""
function step!(add, checkpointer::Checkpointer, n::Integer; metrics = (), counters = (), due = false)
    keeper = checkpointer.keeper
    tell_all(keeper, metrics, counters)
    own = votes(keeper, n; due)
    warn_people(checkpointer)
    what = decide(keeper, checkpointer.most(own))
    what == :GO_ON && return nothing
    made_id = save_now(add, checkpointer, nothing)
    what == :SAVE_AND_STOP && settle(checkpointer)
    return made_id
end

"The same of a step that is saved whatever `every` says; a `label` of your own stays for ever."
function save!(add, checkpointer::Checkpointer, n::Integer; label = nothing, metrics = (), counters = ())
    tell_all(checkpointer.keeper, metrics, counters)
    note(checkpointer.keeper, n)
    return save_now(add, checkpointer, label)
end

function tell_all(keeper, metrics, counters)
    foreach(((name, value),) -> tell(keeper, :METRIC, name, value), metrics)
    foreach(((name, value),) -> tell(keeper, :COUNTER, name, value), counters)
    return nothing
end

plans(checkpointer) = checkpointer.settings.rank == 0 || get(checkpointer.settings, :ranks_agree, true) in (false, 0)

function save_now(add, checkpointer::Checkpointer, label)
    settle(checkpointer)
    how = checkpointer.first(plans(checkpointer) ? plan(checkpointer.keeper, label) : "")
    if isnothing(checkpointer.session)
        given = checkpointer.settings
        checkpointer.session = Session(checkpointer.store; given.rank, given.world_size, given.string,
                                       settings_of(checkpointer, "session")...)
    end
    save = begin_save(checkpointer.keeper, checkpointer.session, how; settings_of(checkpointer, "save")...)
    isnothing(save) && return saved(checkpointer.keeper)
    try
        add(save)
    catch failed
        give_up(save, sprint(showerror, failed))
        rethrow()
    end
    checkpointer.job = start(save)
    return id(save)
end

# Waits for the save in the background, and throws its failure.
function settle(checkpointer::Checkpointer)
    job, checkpointer.job = checkpointer.job, nothing
    isnothing(job) || wait(job)
    return nothing
end

"""
    restore(load, checkpointer, selector = "latest") -> Union{Int,Nothing}

Calls `load(reader)` with the checkpoint to start from, the same one on all ranks, and returns its step; `nothing` if
there is none yet. A damaged newest one is passed over aloud, also where only `load` finds the damage, and its step can
be saved again. With several ranks `load` must throw on all or on none.
"""
function restore(load, checkpointer::Checkpointer, selector::AbstractString = "latest")
    settle(checkpointer)
    keeper = checkpointer.keeper
    while true
        found = checkpointer.first(plans(checkpointer) ? something(find(keeper, selector), "") : "")
        warn_people(checkpointer)
        isempty(found) && return nothing
        try
            reader = Reader(checkpointer.store, found)
            load(reader)
            restored(keeper, reader)
            warn_people(checkpointer)
            return step_of(reader)
        catch failed
            failed isa CkptError || rethrow()
            plans(checkpointer) && pass_over(keeper, failed)
            @warn "passed over $found: $(failed.message)"
        end
    end
end

step_of(reader::Reader) = something(info(reader).step, 0)

stopping(checkpointer::Checkpointer) = stopping(checkpointer.keeper)

"Waits for the save in the background, throws its failure, and gives the signals back."
function Base.close(checkpointer::Checkpointer)
    close(checkpointer.keeper)
    settle(checkpointer)
    isnothing(checkpointer.session) || close(checkpointer.session)
    return nothing
end
