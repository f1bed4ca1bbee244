@testset "use after close is an error, close twice is not" begin
    store = Store("mem:closed")
    @test isopen(store)
    close(store)
    close(store)
    @test !isopen(store)
    @test_throws InvalidStateException Ckpt.checkpoints(store)
    @test_throws InvalidStateException Session(store)
    @test string(store) == "Store(closed)"
end

@testset "handles may be closed in any order" begin
    store, kept = Store("mem:order"), Store("mem:order")
    session = Session(store)
    close(store)
    save = Save(session, "a")
    close(session)
    array = Float32[1, 2, 3]
    add_tensor!(save, "w", array)
    job = start(save)
    close(save)
    wait(job)
    close(job)
    reader = Reader(kept)
    close(kept)
    load = Load(reader)
    close(reader)
    found = zeros(Float32, 3)
    add_tensor!(load, "w", found)
    run(load)
    @test found == array
end

@testset "open with a function closes at the end, and after an error too" begin
    held = Any[]
    @test open(store -> (push!(held, store); 5), Store, "mem:do") == 5
    @test !isopen(held[1])
    @test_throws ErrorException open(store -> (push!(held, store); error("no")), Store, "mem:do")
    @test !isopen(held[2])
end

@testset "a closed reader lives on while a mapped tensor of it does" begin
    # In a function of its own, so that no slot of this one still holds the tensor when the collector looks.
    @noinline function use_and_forget()
        store = Store("mem:mapped-on")
        save = Save(Session(store), "a")
        add_tensor!(save, "w", Float32[1, 2, 3])
        run(save)
        reader = Reader(store)
        tensor = map_tensor(reader, "w")
        close(reader)
        close(store)
        @test_throws InvalidStateException Ckpt.info(reader)
        @test tensor == Float32[1, 2, 3]
        held = tensor.held.handle
        @test (@atomic held.pointer) != C_NULL
        return held
    end
    held = use_and_forget()
    GC.gc()
    GC.gc()
    @test (@atomic held.pointer) == C_NULL
end

@testset "what nobody closes the collector frees" begin
    make() = Store("mem:forgotten").handle
    @test isopen(Store(make()))
    @noinline function forget()
        save = Save(Session(Store("mem:forgotten")), "a")
        add_tensor!(save, "w", zeros(1000))
        start(save)
        return nothing
    end
    forget()
    GC.gc()
    GC.gc()
    @test isempty(Ckpt.IN_USE)
end

@testset "two tasks in one save are told, instead of meeting in C" begin
    save = Save(Session(Store("mem:alone")), "a")
    Ckpt.enter_alone(save.handle)
    @test_throws ConcurrencyViolationError add_tensor!(save, "w", Float32[1])
    Ckpt.leave(save.handle)
    add_tensor!(save, "w", Float32[1])
    close(save)
    @test_throws InvalidStateException add_tensor!(save, "x", Float32[1])
end
