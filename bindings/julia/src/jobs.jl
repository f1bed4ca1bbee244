# Work in the background, and the arrays that the engine uses for it.

"""
A save, load or verification that runs in the background. Any number of tasks may wait for it, look at it and cancel
it. A save belongs to its session: closing or dropping its job loses nothing. Other work is cancelled by `close`, which
blocks until the engine no longer touches the arrays; the garbage collector does the same for a job that nobody kept.
The job keeps the arrays alive until then.
"""
struct Job <: Resource
    handle::Handle{ckpt_job}
    goal::Int32  # the state that is success
    save::Union{KeptSave,Nothing}  # of a save, which its session keeps
end

"""
    Job()

A job for one call that blocks its thread: `Session(…; job)`, `Ckpt.prune`, `Ckpt.repair`, `Ckpt.import_checkpoint`,
`diff`, `Ckpt.copy_checkpoint` and `Ckpt.export_checkpoint` take it as keyword `job`. A task of another thread can look
at it and `cancel` it; the call then throws CANCELLED soon. Other calls refuse it (INVALID), and so does a second call.
"""
Job() = started((out, err) -> ckpt_job_new(out, err), CKPT_JOB_DONE, Any[])

function set_option(bag, key, value::Job, err)
    key == "job" || throw(ArgumentError("option $key: expected an integer, a Bool or text, found a Job"))
    return use(pointer -> ckpt_options_set_job(bag, pointer, err), value.handle)
end

# Arrays that the engine uses, by the job's address. They are held here and not in the Job: the finalisers of one
# collection run in any order, and that of a memory-mapped array must not run before the job's.
const IN_USE = Dict{UInt,Vector{Any}}()
const IN_USE_LOCK = Threads.SpinLock()

hold(pointer::Ptr{ckpt_job}, arrays) = lock(() -> (IN_USE[UInt(pointer)] = arrays), IN_USE_LOCK)
let_go(pointer::Ptr{ckpt_job}) = lock(() -> pop!(IN_USE, UInt(pointer), nothing), IN_USE_LOCK)

# Takes the arrays out of the table first, since a new job may get this address as soon as it is free.
function free(pointer::Ptr{ckpt_job})
    arrays = let_go(pointer)
    GC.@preserve arrays ckpt_job_free(pointer)
    return nothing
end

# f(out, err) is a C call that starts a job; `saves` and `label` are of a save.
function started(f, goal, arrays, saves = nothing, label = "")
    handle = made(f, ckpt_job)
    use(pointer -> hold(pointer, arrays), handle)
    isnothing(saves) && return Job(handle, goal, nothing)
    kept = KeptSave(label, handle, false)
    keep!(saves, kept)
    return Job(handle, goal, kept)
end

# Returns when the engine is quiet, even if another task is inside a call on this job. A save in place is quiet when it
# is staged.
function Base.close(job::Job)
    isnothing(job.save) || return until_staged(job.handle)
    shut(job.handle)
    while (@atomic job.handle.pointer) != C_NULL
        yield()
    end
    return nothing
end

"""
Its state: `:NEW` (of `Job()`, before its call), `:RUNNING`, `:STAGED`, `:WRITTEN`, `:COMMITTED`, `:DONE`, `:FAILED`,
`:CANCELLED`, or `:DELIVERED` of a save with `wait = false` on another rank than 0, whose part is durable and which does
not know the outcome. It never goes back.
"""
state(job::Job) = name_of(JOB_STATES, use(ckpt_job_state, job.handle))

"Asks the job to stop and returns at once. A save that is not committed yet will not be."
function cancel(job::Job)
    tell(job.save)
    return use(ckpt_job_cancel, job.handle)
end

# A wait looks at the job for at most this long at a time; between looks other tasks of this thread go on.
const SLICE_MS = 5

"""
    wait(job, state = its end; timeout_ms = nothing)

Waits until the job is in `state` or beyond: `:STAGED` (the arrays are yours again), `:WRITTEN` or `:COMMITTED` of a
save, `:DONE` of a load or verification. Other tasks go on meanwhile, and Ctrl-C interrupts the wait. Throws the
`CkptError` of a job that failed or was cancelled; throws TIMEOUT after `timeout_ms`, and the job goes on.
"""
function Base.wait(job::Job, state::Union{Symbol,Integer} = job.goal; timeout_ms = nothing)
    target = number_of(JOB_STATES, state)
    limit = something(timeout_ms, -1)
    began = time_ns()
    while true
        passed = Int((time_ns() - began) ÷ 1_000_000)
        left = limit < 0 ? SLICE_MS : max(limit - passed, 0)
        ended = use(pointer -> look(pointer, target, min(left, SLICE_MS)), job.handle)
        (ended || left == 0) && break
        yield()
    end
    try
        call((pointer, err) -> ckpt_job_wait(pointer, target, 0, err), job.handle)
    catch
        use(ckpt_job_state, job.handle) >= CKPT_JOB_COMMITTED && tell(job.save)
        rethrow()
    end
    use(ckpt_job_state, job.handle) == CKPT_JOB_COMMITTED && warn_of_anew(job.save)
    return nothing
end

# Other tasks of this thread go on meanwhile.
function until_staged(handle)
    while !use(pointer -> look(pointer, CKPT_JOB_STAGED, SLICE_MS), handle)
        yield()
    end
    return nothing
end

# Whether the state was reached or never will be. The status TIMEOUT alone does not show it: a job can fail with
# TIMEOUT.
function look(pointer, target, slice)
    status = ckpt_job_wait(pointer, target, slice, C_NULL)
    reached = ckpt_job_state(pointer)
    reached >= CKPT_JOB_STAGED && let_go(pointer)
    return status != CKPT_TIMEOUT || reached >= CKPT_JOB_FAILED
end

"What the job has done so far: a `JobStats`."
function stats(job::Job)
    out = sized(ckpt_job_stats)
    call((pointer, err) -> ckpt_job_stats_get(pointer, out, err), job.handle)
    return JobStats(out[])
end

"""
What a verification found (nothing in a sound checkpoint), or what retention did after a save on rank 0. INVALID before
the job has ended, UNSUPPORTED for loads.
"""
report(job::Job) = report(job.handle)
report(job::Handle{ckpt_job}) = use(job) do pointer
    findings((out, err) -> ckpt_job_report(pointer, out, err))
end

# Waits for the end. After a failure or an interrupt it returns only when the engine is quiet.
function finish(job::Job)
    try
        wait(job)
    catch
        cancel(job)
        rethrow()
    finally
        isnothing(job.save) ? close(job) : until_ended(job.handle)
    end
    return nothing
end

function until_ended(handle)
    while !use(pointer -> look(pointer, CKPT_JOB_COMMITTED, SLICE_MS), handle)
        yield()
    end
    return nothing
end
