# A training that is interrupted goes on from what it kept.

# Trains from what there is to `last`, and returns its state.
function trained(store, last; policy...)
    weights = ones(Float32, 8)
    checkpointer = Checkpointer(store; every = "2 steps", keep_last = 2, policy...)
    start = restore(reader -> (weights .= load_tensor(reader, "w")), checkpointer)
    for n in something(start, 0)+1:last
        weights .= weights .* 1.5f0 .+ n
        step!(save -> add_tensor!(save, "w", weights), checkpointer, n; metrics = ("loss" => 1 / n,))
    end
    close(checkpointer)
    return weights
end

labels_of(store) = [info.label for info in Ckpt.checkpoints(store) if info.state == :COMMITTED]

@testset "an interrupted training goes on bit for bit" begin
    whole, broken = Store("mem:keeper-whole"), Store("mem:keeper-broken")
    trained(broken, 5)
    @test trained(broken, 9) == trained(whole, 9)
    @test labels_of(broken) == ["step-6", "step-8"]
end

@testset "a save of one's own, and one that fails, are told" begin
    store = Store("mem:keeper-own")
    checkpointer = Checkpointer(store; every = "1 epoch")
    @test_throws CkptError step!(identity, checkpointer, 1)
    @test Ckpt.save!(save -> add_tensor!(save, "w", [1.0]), checkpointer, 2; label = "mine") == "mine.1.1"
    @test_throws ErrorException Ckpt.save!(_ -> error("no state"), checkpointer, 3)
    close(checkpointer)
    @test labels_of(store) == ["mine"]
end

@testset "a training that shall stop does so once its last save is committed" begin
    store = Store("mem:keeper-stop")
    checkpointer = Checkpointer(store; every = "100 steps")
    Ckpt.enter_alone(checkpointer.keeper.handle)  # as a call of the training's task does
    wait(Threads.@spawn Ckpt.stop(checkpointer.keeper, 1000))
    Ckpt.leave(checkpointer.keeper.handle)
    @test_throws ErrorException step!(_ -> error("no state"), checkpointer, 3)
    @test isnothing(Ckpt.stopping(checkpointer))
    step!(save -> add_tensor!(save, "w", [2.0]), checkpointer, 4)
    @test Ckpt.stopping(checkpointer) == "time limit"
    @test labels_of(store) == ["step-4"]
    @test isnothing(step!(_ -> error("not called"), checkpointer, 5))
    close(checkpointer)
end

# Calls f(checkpointer, rank) on two ranks that talk through two channels; returns what each returned.
function on_two_ranks(f, store; policy...)
    boxes = [Channel{Any}(1), Channel{Any}(1)]
    function of_both(rank, said)
        put!(boxes[2-rank], said)
        heard = take!(boxes[rank+1])
        return rank == 0 ? (said, heard) : (heard, said)
    end
    tasks = map(0:1) do rank
        most(numbers) = max.(of_both(rank, numbers)...)
        told_first(text) = of_both(rank, text)[1]
        checkpointer = Checkpointer(store; rank, world_size = 2, most, first = told_first, timeout_ms = 60_000,
                                    policy...)
        Threads.@spawn f(checkpointer, rank)
    end
    return map(fetch, tasks)
end

@testset "two ranks save, pass over and fail alike" begin
    store = Store("mem:keeper-ranks")
    on_two_ranks(store; every = "1 step") do checkpointer, rank
        for n in 1:2
            step!(save -> add_tensor!(save, "w", Float32[n]), checkpointer, n)
        end
        close(checkpointer)
    end
    @test labels_of(store) == ["step-1", "step-2"]
    damage = CkptError(Ckpt.status_code(:CORRUPT), :CORRUPT, "planted", Dict{String,String}())
    damaged_on(one) = (reader, rank) -> rank == one && Ckpt.info(reader).step == 2 && throw(damage)
    for one in 0:1
        steps = on_two_ranks(store) do checkpointer, rank
            restore(reader -> damaged_on(one)(reader, rank), checkpointer)
        end
        @test steps == [1, 1]
    end
    thrown_by = on_two_ranks(store) do checkpointer, rank  # of a label no other one will do
        status_of(() -> restore(reader -> damaged_on(1)(reader, rank), checkpointer, "step-2"))
    end
    @test thrown_by == [:ABORTED, :CORRUPT]
    thrown_by = on_two_ranks(store) do checkpointer, rank
        status_of(() -> restore(_ -> rank == 0 && error("of its own"), checkpointer))
    end
    @test thrown_by == [ErrorException, :ABORTED]
    thrown_by = on_two_ranks(store) do checkpointer, rank
        status_of(() -> restore(identity, checkpointer, "no-such-label"))
    end
    @test thrown_by == [:NOT_FOUND, :ABORTED]
end
