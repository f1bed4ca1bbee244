# Who owns a save in the background: its session, so that a job may be dropped.

# A save that may still run. `told`: somebody learned the failure, or asked for it by a cancel, or was warned of what
# there is to warn of.
mutable struct KeptSave
    label::String
    handle::Handle{ckpt_job}
    @atomic told::Bool
end

# The saves of one session. The session and its saves share it.
struct Saves
    running::Vector{KeptSave}
    guard::Threads.SpinLock
end

Saves() = Saves(KeptSave[], Threads.SpinLock())

# Those of all sessions, so that the garbage collector does not cancel one whose session nobody holds any more.
const ALL_SAVES = Saves()

function keep!(saves::Saves, kept::KeptSave)
    for one in running(ALL_SAVES)
        has_ended(one) && forget!(ALL_SAVES, one)
    end
    for list in (saves, ALL_SAVES)
        lock(() -> push!(list.running, kept), list.guard)
    end
    return nothing
end

has_ended(kept::KeptSave) = use(ckpt_job_state, kept.handle) >= CKPT_JOB_COMMITTED

# Notes that somebody is told; returns whether somebody was before.
tell(kept::KeptSave) = @atomicswap kept.told = true
tell(::Nothing) = true

# Warns, once, that a save, which was committed, does not go on from what its run has: a trainer that forgot to load
# asks for no report.
function warn_of_anew(kept::KeptSave)
    tell(kept) && return nothing
    for finding in report(kept.handle)
        finding.kind == :ANEW && @warn finding.text
    end
    return nothing
end
warn_of_anew(::Nothing) = nothing

# The failure of a save that has ended, if nobody was told of it.
function untold(kept::KeptSave)
    try
        call((pointer, err) -> ckpt_job_wait(pointer, CKPT_JOB_COMMITTED, 0, err), kept.handle)
        warn_of_anew(kept)
    catch error
        error isa CkptError || rethrow()
        tell(kept) && return nothing
        words = "the save \"$(kept.label)\" in the background failed: $(error.message)"
        return CkptError(error.code, error.status, words, error.details)
    end
    return nothing
end

# The first failure of a save that has ended and of which nobody was told. Forgets all that have ended.
function failure(saves::Saves)
    first_one = nothing
    for kept in running(saves)
        has_ended(kept) || continue
        forget!(saves, kept)
        failed = untold(kept)
        isnothing(first_one) && (first_one = failed)
    end
    return first_one
end

running(saves::Saves) = lock(() -> copy(saves.running), saves.guard)

function forget!(saves::Saves, gone::KeptSave)
    lock(saves.guard) do
        left = [kept for kept in saves.running if kept !== gone]
        empty!(saves.running)
        foreach(kept -> push!(saves.running, kept), left)
    end
    return nothing
end

# Waits for all. While an exception is handled it cancels them, so that other ranks do not wait.
function finish(saves::Saves)
    if !isempty(current_exceptions())
        for kept in running(saves)
            tell(kept)
            use(ckpt_job_cancel, kept.handle)
        end
    end
    for kept in running(saves)
        while !has_ended(kept)
            use(pointer -> ckpt_job_wait(pointer, CKPT_JOB_COMMITTED, SLICE_MS, C_NULL), kept.handle)
            yield()
        end
    end
    return failure(saves)
end
