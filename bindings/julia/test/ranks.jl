@testset "two ranks save one checkpoint, and any other number loads it" begin
    rows, columns = 6, 8
    whole = reshape(collect(Float32, 1:rows*columns), rows, columns)
    store = Store("mem:ranks")
    sessions = [Session(store; rank = 0, world_size = 2)]
    push!(sessions, Session(store; rank = 1, world_size = 2, string = Ckpt.session_string(sessions[1])))
    function save_rank(rank)
        save = Save(sessions[rank+1], "step-1"; step = 1, timeout_ms = 60_000)
        mine = rank == 0 ? (1:5) : (6:8)
        add_tensor!(save, "sharded", view(whole, :, mine); whole = (rows, columns), box = (1:rows, mine))
        add_tensor!(save, "replicated", whole)
        add_object!(save, "rng", UInt8[rank, 7]; scope = :PER_RANK)
        rank == 0 && add_object!(save, "trainer", "{}"; media_type = "application/json")
        run(save)
    end
    tasks = [Threads.@spawn(save_rank(0)), Threads.@spawn(save_rank(1))]
    foreach(wait, tasks)
    reader = Reader(store)
    @test Ckpt.info(reader).world_size == 2
    @test load_tensor(reader, "sharded") == whole
    @test load_tensor(reader, "replicated") == whole
    @test load_object(reader, "rng"; rank = 1) == UInt8[1, 7]
    @test String(load_object(reader, "trainer")) == "{}"
    @test [object.rank for object in Ckpt.objects(reader)] == [0, 1, nothing]
    @test length(Ckpt.segments(reader, "sharded")) >= 2
    @test [part.rank for part in Ckpt.parts(reader)] == [0, 1]
    third = zeros(Float32, 2, columns)
    load = Load(reader)
    add_tensor!(load, "sharded", third; whole = (rows, columns), box = (3:4, 1:columns))
    run(load)
    @test third == whole[3:4, :]
end

@testset "ranks may meet through the store" begin
    mktempdir() do folder
        stores = [Store(folder), Store(folder)]
        join_rank(rank) = Session(stores[rank+1]; rank, world_size = 2, rendezvous = true, timeout_ms = 60_000)
        tasks = [Threads.@spawn(join_rank(0)), Threads.@spawn(join_rank(1))]
        texts = [Ckpt.session_string(fetch(task)) for task in tasks]
        @test texts[1] == texts[2]
    end
end

@testset "a rank reads its own value" begin
    store = Store("mem:own")
    first = Session(store; rank = 0, world_size = 2)
    second = Session(store; rank = 1, world_size = 2, string = Ckpt.session_string(first))
    for (rank, session) in enumerate((first, second))
        save = Save(session, "a")
        save_state(save, TreeDict("rng" => PerRank(rank - 1, 99 + rank)))
        start(save)
    end
    close(first)
    close(second)
    reader = Reader(store)
    @test_throws ArgumentError Ckpt.own(load_state(reader)["rng"])  # of both ranks
    @test_throws ArgumentError Ckpt.own(Record("torch.Size", "n" => 3))
    @test [Ckpt.own(load_state(reader; rank)["rng"]) for rank in (0, 1, 5)] == [100, 101, 100]
end
