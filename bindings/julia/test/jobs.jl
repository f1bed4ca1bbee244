@testset "an array may change once the save is staged, and is held until then" begin
    store = Store("mem:staged")
    save = Save(Session(store), "a")
    array = collect(Float64, 1:1000)
    add_tensor!(save, "w", array)
    job = start(save)
    wait(job, :STAGED)
    @test isempty(Ckpt.IN_USE)
    fill!(array, 0)
    wait(job)
    @test Ckpt.state(job) === :COMMITTED
    stats = Ckpt.stats(job)
    @test stats.state === :COMMITTED && stats.bytes_total >= 8000
    @test isempty(Ckpt.report(job))  # what retention did
    close(job)
    @test load_tensor(Reader(store), "w") == collect(Float64, 1:1000)
end

@testset "a save in place is staged when it is written" begin
    store = Store("mem:in-place")
    save = Save(Session(store), "a")
    array = collect(Float64, 1:1000)
    add_tensor!(save, "w", array)
    job = start(save; in_place = true)
    wait(job, :STAGED)
    @test Ckpt.state(job) in (:WRITTEN, :COMMITTED)
    wait(job)
    @test load_tensor(Reader(store), "w") == array
end

@testset "a wait that times out leaves the job running; a cancel ends it for all" begin
    store = Store("mem:cancel")
    first = Session(store; rank = 0, world_size = 2)
    second = Session(store; rank = 1, world_size = 2, string = Ckpt.session_string(first))
    save = Save(first, "a"; timeout_ms = 60_000)
    add_tensor!(save, "w", zeros(Float32, 10))
    job = start(save)
    @test status_of(() -> wait(job, :COMMITTED; timeout_ms = 20)) === :TIMEOUT
    @test Ckpt.state(job) in (:RUNNING, :STAGED, :WRITTEN)
    cancel(job)
    cancel(job)
    @test status_of(() -> wait(job)) === :CANCELLED
    @test Ckpt.state(job) === :CANCELLED
    @test_throws ArgumentError wait(job, :FINISHED)
    other = Save(second, "a"; timeout_ms = 60_000)
    add_tensor!(other, "w", zeros(Float32, 10))
    @test status_of(() -> run(other)) === :ABORTED
    @test isempty([info for info in Ckpt.checkpoints(store) if info.state === :COMMITTED])
end

@testset "cancelling a job while another task waits for it ends the wait" begin
    store = Store("mem:close-job")
    session = Session(store; rank = 0, world_size = 2)
    save = Save(session, "a"; timeout_ms = 60_000)
    add_tensor!(save, "w", zeros(Float32, 10))
    job = start(save)
    waiting = Threads.@spawn thrown(() -> wait(job))
    sleep(0.05)
    cancel(job)
    close(job)
    @test isempty(Ckpt.IN_USE)
    @test fetch(waiting) isa CkptError
end

@testset "a failed run leaves nothing in use" begin
    store = Store("mem:failed-run")
    session = Session(store; rank = 0, world_size = 2)
    save = Save(session, "a"; timeout_ms = 50)
    add_tensor!(save, "w", zeros(Float32, 10))
    error = thrown(() -> run(save))
    @test error.status === :TIMEOUT
    @test error.details["ranks"] == "1"
    @test isempty(Ckpt.IN_USE)
    @test status_of(() -> run(save)) === :INVALID
end

@testset "loads run in the background too, and other tasks go on" begin
    with_checkpoint("background", save -> add_tensor!(save, "w", collect(Float32, 1:5000))) do reader
        target = zeros(Float32, 5000)
        load = Load(reader; strict = "none")
        add_tensor!(load, "w", target)
        add_tensor!(load, "absent", zeros(Float32, 3))
        job = start(load)
        steps = Threads.@spawn sum(1:100)
        wait(job)
        @test fetch(steps) == 5050
        @test Ckpt.state(job) === :DONE
        @test target == collect(Float32, 1:5000)
        missing_one = Ckpt.report(load)[1]
        @test missing_one.kind === :MISSING && missing_one.name == "absent"
    end
end

# ---- a save in the background belongs to its session ----

function two_ranks(name)
    store = Store("mem:$name")
    first = Session(store; rank = 0, world_size = 2)
    return store, first, Session(store; rank = 1, world_size = 2, string = Ckpt.session_string(first))
end

function start_save(session, label, array)
    save = Save(session, label; timeout_ms = 60_000)
    add_tensor!(save, "w", array)
    return start(save)
end

@testset "a save whose job is dropped or closed is committed with the array as it was at the start" begin
    store, first, second = two_ranks("dropped")
    array = collect(Float32, 1:1000)
    start_save(first, "a", array)
    fill!(array, 0)
    GC.gc()
    close(start_save(second, "a", collect(Float32, 1:1000)))
    close(first)
    close(second)
    @test load_tensor(Reader(store), "w") == collect(Float32, 1:1000)
end

@testset "a failure of which nobody was told is that of the save after it" begin
    store, first, second = two_ranks("told")
    start_save(first, "a", Float32[1])
    Ckpt.give_up(Save(second, "a"), "no room")
    told = nothing
    while isnothing(told)
        told = thrown(() -> close(Save(first, "probe")))
    end
    @test told.status === :ABORTED
    @test startswith(told.message, "the save \"a\" in the background failed: ")
    start_save(first, "b", Float32[1])  # told once; the session can be used again
    start_save(second, "b", Float32[1])
    close(first)
    close(second)
    @test load_tensor(Reader(store), "w") == Float32[1]
end

@testset "closing a session throws the failure unless a wait did" begin
    for waits in (false, true)
        _, first, second = two_ranks("close-$waits")
        job = start_save(first, "a", Float32[1])
        other = Save(second, "a")
        Ckpt.give_up(other, "no room for the optimizer")
        @test status_of(() -> Ckpt.give_up(other, "again")) === :INVALID
        waits && @test status_of(() -> wait(job)) === :ABORTED
        failed = thrown(() -> close(first))
        @test waits ? isnothing(failed) : occursin("no room for the optimizer", failed.message)
    end
end

@testset "an exception that reaches the close of the session cancels its saves at once" begin
    _, first, second = two_ranks("exception")
    @test_throws ErrorException try
        start_save(first, "a", Float32[1])
        error("the trainer failed")
    finally
        close(first)  # without the cancel it would wait for the other rank
    end
    save = Save(second, "a"; timeout_ms = 60_000)
    add_tensor!(save, "w", Float32[1])
    @test status_of(() -> run(save)) === :ABORTED
end
