# The loop of a training around its keeper, which all ranks go through alike.

"""
    Checkpointer(store; rank = 0, world_size = 1, most = identity, first = identity, options…)

Saves a training as it goes on, keeps what the policy says, and restores the newest checkpoint that is sound:

    checkpointer = Checkpointer(Store("/data/run7"); every = "500 steps", keep_last = 3)
    start = restore(reader -> (weights .= load_tensor(reader, "w")), checkpointer)
    for n in something(start, 0)+1:steps
        train!(weights)
        step!(save -> add_tensor!(save, "w", weights), checkpointer, n; metrics = ("loss" => loss,))
        isnothing(Ckpt.stopping(checkpointer)) || break
    end
    close(checkpointer)

Several ranks give two functions: `most(numbers)` returns those of all ranks, each by its maximum (MPI's
`Allreduce(numbers, max)`), and `first(text)` returns rank 0's text. Without them set `ranks_agree = false`: each rank
then decides by counters, and they meet through the store. Options are those of [`Keeper`](@ref), [`Session`](@ref),
[`Save`](@ref) and [`Reader`](@ref).
"""
mutable struct Checkpointer
    store::Store
    keeper::Keeper
    session::Union{Session,Nothing}  # nothing until the first save: restoring takes a run from nobody
    job::Union{Job,Nothing}
    stopping::Union{String,Nothing}
    most::Any
    first::Any
    settings::Any
end

function Checkpointer(store::Store; rank = 0, world_size = 1, most = identity, first = identity, options...)
    keeper = Keeper(store; rank, world_size, options...)
    apart = get(options, :ranks_agree, true) == false ? (; rendezvous = world_size > 1) : (;)
    settings = (; rank, world_size, apart..., options...)
    return Checkpointer(store, keeper, nothing, nothing, nothing, most, first, settings)
end

warn_people(checkpointer) = (said = warning(checkpointer.keeper); isnothing(said) || @warn said)

# Which of the settings a call takes, by what the library says of each.
function settings_of(checkpointer, call)
    known = Set(Symbol(one.key) for one in options() if call in split(one.used_by))
    return (; (key => value for (key, value) in pairs(checkpointer.settings) if key in known)...)
end

agree(checkpointer) = get(checkpointer.settings, :ranks_agree, true) == true
is_first(checkpointer) = checkpointer.settings.rank == 0

# The text that rank 0 makes, on all ranks; or its failure. Ranks that cannot agree make one each.
function of_first(make, checkpointer)
    agree(checkpointer) || return make()
    own, failed = "", nothing
    if is_first(checkpointer)
        try
            own = "+" * make()
        catch error
            own, failed = "-" * sprint(showerror, error), error
        end
    end
    told = checkpointer.first(own)
    isnothing(failed) || throw(failed)
    startswith(told, "+") && return told[2:end]
    throw(failure_of(:ABORTED, "rank 0: $(told[2:end])"))
end

failure_of(status, message) = CkptError(status_code(status), status, message, Dict{String,String}())

"""
    step!(add, checkpointer, n; metrics = (), counters = (), due = false) -> Union{String,Nothing}

Says that step `n` is done. If a save is due, `add(save)` adds the state, the save goes on in the background, and the id
is returned. After a signal, or at the time limit, it returns once the checkpoint is committed, and `Ckpt.stopping` says
why; if that fails, the next step tries again. Throws the failure of the save before, which then is a warning only.
"""
function step!(add, checkpointer::Checkpointer, n::Integer; metrics = (), counters = (), due = false)
    keeper = checkpointer.keeper
    tell_all(keeper, metrics, counters)
    own = votes(keeper, n; due)
    warn_people(checkpointer)
    what = decide(keeper, checkpointer.most(own))
    why = stopping(keeper)
    if isnothing(why) || !isnothing(checkpointer.stopping)
        return what == :GO_ON ? nothing : save_now(add, checkpointer, nothing)
    end
    try
        settle(checkpointer)
    catch failed
        failed isa CkptError || rethrow()
        @warn "the save before the last one failed: $(failed.message)"
    end
    made_id = save_now(add, checkpointer, nothing)
    settle(checkpointer)
    checkpointer.stopping = why
    return made_id
end

"""
    save!(add, checkpointer, n; label = nothing, metrics = (), counters = ()) -> String

Step `n` is saved whatever `every` says, in the background; returns the id. A `label` of your own stays for ever. After
a signal, or at the time limit, it returns once the checkpoint is committed, and `Ckpt.stopping` says why.
"""
function save!(add, checkpointer::Checkpointer, n::Integer; label = nothing, metrics = (), counters = ())
    keeper = checkpointer.keeper
    tell_all(keeper, metrics, counters)
    note(keeper, n)
    made_id = save_now(add, checkpointer, label)
    why = stopping(keeper)
    if !isnothing(why) && isnothing(checkpointer.stopping)
        settle(checkpointer)
        checkpointer.stopping = why
    end
    return made_id
end

function tell_all(keeper, metrics, counters)
    foreach(((name, value),) -> tell(keeper, :METRIC, name, value), metrics)
    foreach(((name, value),) -> tell(keeper, :COUNTER, name, value), counters)
    return nothing
end

function save_now(add, checkpointer::Checkpointer, label)
    settle(checkpointer)
    how = of_first(checkpointer) do
        made = plan(checkpointer.keeper, label)
        warn_people(checkpointer)
        return made
    end
    session = session_of(checkpointer)
    save = begin_save(checkpointer.keeper, session, how; settings_of(checkpointer, "save")...)
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

# Every save sends rank 0's string, since a rank that could not open its session tries again.
function session_of(checkpointer)
    get(checkpointer.settings, :rendezvous, false) == true && return opened(checkpointer, nothing)
    text = of_first(() -> session_string(opened(checkpointer, nothing)), checkpointer)
    return opened(checkpointer, is_first(checkpointer) ? nothing : text)
end

function opened(checkpointer, string)
    if isnothing(checkpointer.session)
        given = checkpointer.settings
        checkpointer.session = Session(checkpointer.store; given.rank, given.world_size, string,
                                       settings_of(checkpointer, "session")...)
    end
    return checkpointer.session
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
there is none yet. A damaged newest one is passed over aloud, also where only the `load` of one rank finds the damage:
all ranks then load the one before, and its step can be saved again. What else `load` throws, it throws, and ABORTED on
the other ranks.
"""
function restore(load, checkpointer::Checkpointer, selector::AbstractString = "latest")
    settle(checkpointer)
    while true
        found = of_first(() -> something(find(checkpointer.keeper, selector), ""), checkpointer)
        warn_people(checkpointer)
        isempty(found) && return nothing
        step = load_found(load, checkpointer, found)
        isnothing(step) || return step
    end
end

const FINE, DAMAGED, FAILED = 0, 1, 2  # what became of a load, in all ranks the worst

# As ckpt_keeper_pass_over says.
is_damage(failed) =
    failed isa CkptError && (failed.code ÷ 10 == CKPT_CORRUPT ÷ 10 || failed.code == CKPT_GONE)

# The step of this checkpoint; nothing if it is damaged and the one before may do. The same on all ranks.
function load_found(load, checkpointer, found)
    worst(own) = checkpointer.most([own])[1]
    reader = nothing
    try
        try
            reader = Reader(checkpointer.store, found; settings_of(checkpointer, "reader")...)
            load(reader)
        catch failed  # whatever it is: the other ranks must not wait
            passes_over(checkpointer, found, failed, worst(is_damage(failed) ? DAMAGED : FAILED)) || rethrow()
            return nothing
        end
        all_ranks = worst(FINE)
        all_ranks == FINE && return go_on_from(checkpointer, reader)
        elsewhere = failure_of(:ABORTED, "another rank could not load $found; see its error")
        passes_over(checkpointer, found, elsewhere, all_ranks) || throw(elsewhere)
        return nothing
    finally
        isnothing(reader) || close(reader)
    end
end

# Whether the one before may do, which rank 0's keeper knows.
function passes_over(checkpointer, found, failed, all_ranks)
    all_ranks == DAMAGED || return false
    damage = is_damage(failed) ? failed : failure_of(:CORRUPT, failed.message)
    try
        of_first(() -> (pass_over(checkpointer.keeper, damage); ""), checkpointer)
    catch refused
        refused isa CkptError || rethrow()
        return false
    end
    @warn "passed over $found: $(failed.message)"
    return true
end

# Only rank 0 looks at the store for later steps, which can fail.
function go_on_from(checkpointer, reader)
    of_first(() -> (restored(checkpointer.keeper, reader); ""), checkpointer)
    agree(checkpointer) && !is_first(checkpointer) && restored(checkpointer.keeper, reader)
    warn_people(checkpointer)
    return something(info(reader).step, 0)
end

"Why the training should stop, once the last checkpoint is committed; else `nothing`."
stopping(checkpointer::Checkpointer) = checkpointer.stopping

"""
Waits for the save in the background, throws its failure, and gives the signals back. In a `finally` or `catch` that an
exception has reached, it cancels that save.
"""
function Base.close(checkpointer::Checkpointer)
    checkpointer.job = nothing  # its session waits for it
    close(checkpointer.keeper)
    isnothing(checkpointer.session) || close(checkpointer.session)
    return nothing
end
