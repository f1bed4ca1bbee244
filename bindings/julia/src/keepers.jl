# When a training saves, what is kept, and what it starts from.

"""
    Keeper(store; rank = 0, world_size = 1, options…)

The policy of a run, and what it knows of its checkpoints. [`Checkpointer`](@ref) has the loop around it. Only one task
at a time may use a keeper, but any may call [`Ckpt.stop`](@ref). Options: those used by `keeper`. Throws INVALID.
"""
mutable struct Keeper <: Resource
    handle::Handle{ckpt_keeper}
    @atomic why_to_stop::Int32  # 0: nobody has asked
end

function Keeper(store::Store; rank = 0, world_size = 1, options...)
    return with_options(options) do bag
        use(store.handle) do pointer
            Keeper(made((out, err) -> ckpt_keeper_new(out, pointer, rank, world_size, bag, err), ckpt_keeper), 0)
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
    call_alone(keeper.handle) do pointer, err
        why = @atomic keeper.why_to_stop
        why == 0 || ckpt_keeper_stop(pointer, why)
        ckpt_keeper_step(pointer, step, due, own, err)
    end
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

What all ranks do now: `:GO_ON`, `:SAVE` or `:SAVE_AND_STOP`. Without `votes` the step decides. Throws INVALID or
MISMATCH.
"""
function decide(keeper::Keeper, combined = nothing)
    what = Ref{Int32}(0)
    numbers = isnothing(combined) ? C_NULL : combined
    call_alone((pointer, err) -> ckpt_keeper_decide(pointer, numbers, what, err), keeper.handle)
    return name_of(KEEPER_GO_ONS, what[])
end

"""
Asks to stop, for a signal's number or 1000, the time limit: the next step of all ranks saves. Any task, at any time.
"""
function stop(keeper::Keeper, why::Integer)
    @atomic keeper.why_to_stop = why  # the next votes() has it, since a call into C would be in the way of another task
    return nothing
end

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
