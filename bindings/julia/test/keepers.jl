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
    Ckpt.stop(checkpointer.keeper, 1000)
    @test step!(save -> add_tensor!(save, "w", [2.0]), checkpointer, 4; counters = ("epoch" => 1,)) == "step-4.1.1"
    @test Ckpt.stopping(checkpointer) == "time limit"
    close(checkpointer)
    @test labels_of(store) == ["mine", "step-4"]
end
