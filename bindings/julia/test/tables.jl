# The row of an id: two numbers; its counter is the id too.
rows_of(ids) = (reshape(Float32[isodd(i) ? ids[cld(i, 2)] : -ids[cld(i, 2)] for i in 1:2*length(ids)], 2, length(ids)),
                Int32[id for id in ids])

# Ids -100 to 99: the even ones of rank 0 in one piece, the odd ones of rank 1 backwards in slabs.
function add_rank!(save, rank)
    ids = collect(Int64, -100+rank:2:98+rank)
    if rank == 0
        rows, counts = rows_of(ids)
        add_table!(save, "t", ids, "row" => rows, "count" => counts; buckets = 64)
    else
        rows, counts = rows_of(reverse(ids))
        slabs = [1:32, 33:64, 65:96, 97:100]
        add_table!(save, "t", ids, "row" => [rows[:, slab] for slab in slabs],
                   "count" => [counts[slab] for slab in slabs]; buckets = 64, positions = length(ids):-1:1)
    end
end

# Both ranks save what add!(save, rank) adds.
function saved_by_two(add!, name)
    store = Store("mem:tables-$name")
    first = Session(store; rank = 0, world_size = 2)
    second = Session(store; rank = 1, world_size = 2, string = Ckpt.session_string(first))
    for (rank, session) in enumerate((first, second))
        save = Save(session, "a")
        add!(save, rank - 1)
        start(save)
    end
    close(first)
    close(second)
    return Reader(store)
end

# The ids of all windows; each must have its own row.
function load_windows(reader, share)
    all = Int64[]
    for window in 1:share.window_count
        count = Ckpt.window_rows(share, window)
        @test count <= share.most_rows
        ids, rows, counts = zeros(Int64, count), zeros(Float32, 2, count), zeros(Int32, count)
        load = Load(reader)
        add_table!(load, share, window, ids, "count" => counts, "row" => rows)
        run(load)
        @test (rows, counts) == rows_of(ids)
        foreach(id -> push!(all, id), ids)
    end
    @test length(all) == share.row_count
    return all
end

@testset "what two ranks save, three load, each row once" begin
    reader = saved_by_two(add_rank!, "ranks")
    wanted = collect(Int64, -100:99)
    for kind in (:slice, :mod)
        loaded = Int64[]
        for rank in 0:2
            share = kind === :slice ? Share(reader, "t"; slice = (rank, 3)) : Share(reader, "t"; mod = (rank, 3))
            ids = load_windows(reader, share)
            @test length(ids) < 100
            foreach(id -> push!(loaded, id), ids)
        end
        @test sort(loaded) == wanted
    end
    @test sort(load_windows(reader, Share(reader, "t"))) == wanted
    bucket = [id for id in wanted if reinterpret(UInt64, [id])[1] % 64 == 5]
    @test sort(load_windows(reader, Share(reader, "t"; buckets = 5:5))) == bucket
    share = Share(reader, "t"; window_rows = 30, threads = 1)
    @test share.window_count >= 7 && share.most_rows <= 30
    @test sort(load_windows(reader, share)) == wanted
    @test status_of(() -> Ckpt.window_rows(share, share.window_count + 1)) === :NOT_FOUND
    @test_throws ArgumentError Share(reader, "t"; slice = (0, 3), mod = (0, 3))
end

@testset "listed ids come in their order, and missing ones are listed" begin
    reader = saved_by_two(add_rank!, "ids")
    share = Share(reader, "t"; ids = [7, 1000, -100, 8, -101])
    @test load_windows(reader, share) == [7, -100, 8]
    @test share.missing_ids == [1000, -101]
    rows = zeros(Float32, 2, 3)
    load = Load(reader)
    add_table!(load, share, 1, nothing, "row" => rows)  # the ids are known
    run(load)
    @test rows == rows_of([7, -100, 8])[1]
    found = load_table(reader, "t"; ids = 5:6, columns = ["count"])
    @test found.ids == [5, 6] && found.columns["count"] == Int32[5, 6] && length(found.columns) == 1
    @test isempty(found.missing_ids)
    @test load_table(reader, "t"; ids = [9]).columns["row"] == reshape(Float32[9, -9], 2, 1)
    @test status_of(() -> load_table(reader, "t"; columns = ["none"])) === :NOT_FOUND
end

@testset "a reader tells tables and columns" begin
    reader = saved_by_two(add_rank!, "told")
    table = Ckpt.table(reader, "t")
    @test [one.name for one in Ckpt.tables(reader)] == ["t"]
    @test (table.id_dtype, table.row_count, table.bucket_count, table.column_count) == (DType(:i64), 200, 64, 2)
    @test table.bytes == 200 * 20 && table.stored_bytes > 0
    row, count = Ckpt.columns(reader, "t")
    @test (row.name, row.dtype, row.shape, row.row_bytes) == ("row", DType(:f32), [2], 8)
    @test (count.name, count.dtype, count.shape, count.row_bytes) == ("count", DType(:i32), Int[], 4)
    @test status_of(() -> Ckpt.table(reader, "t/row")) === :NOT_FOUND
    @test status_of(() -> Ckpt.columns(reader, "u")) === :NOT_FOUND
    @test status_of(() -> Share(reader, "u")) === :NOT_FOUND
end

@testset "tables may be empty, of unsigned ids, and of any dtype" begin
    halves = reshape(UInt16[1, 2, 3, 4], 2, 2)
    fill_both(save) = begin
        add_table!(save, "none", Int64[], "x" => zeros(Float32, 3, 0))
        add_table!(save, "t", UInt64[1, 5], "half" => halves; dtypes = Dict("half" => :bf16))
    end
    with_checkpoint("tables-empty", fill_both) do reader
        @test Share(reader, "none").row_count == 0
        @test Share(reader, "none"; ids = [4]).missing_ids == [4]
        found = load_table(reader, "t"; bits = true)
        @test found.ids == UInt64[1, 5] && eltype(found.ids) === UInt64
        @test found.columns["half"] == halves
        @test Ckpt.columns(reader, "t")[1].dtype === DType(:bf16)
    end
end

@testset "an id that is there twice is named, on one rank by the save, on two by the load" begin
    open(Store, "mem:tables-twice") do store
        save = Save(Session(store), "a")
        add_table!(save, "t", [4, 70000, 6, 70000])
        error = thrown(() -> run(save))
        @test error.status === :MISMATCH && occursin("id 70000", error.message)
        @test status_of(() -> Reader(store)) === :NOT_FOUND
    end
    reader = saved_by_two((save, rank) -> add_table!(save, "t", [rank, 5]), "both")
    for rows in (() -> load_table(reader, "t"), () -> Share(reader, "t"; ids = [5]))
        error = thrown(rows)
        @test error.status === :MISMATCH && error.details["ranks"] == "0, 1"
    end
end

@testset "memory that does not fit a table is refused" begin
    ids, data = [3, 1], Float32[1, 2]
    open(Store, "mem:tables-refused") do store
        session = Session(store)
        refused(arguments...; settings...) =
            status_of(() -> add_table!(Save(session, "a"), "t", arguments...; settings...))
        @test refused(ids, "x" => data[1:1]) === :INVALID
        @test refused(ids; buckets = 0) === :INVALID
        @test refused(Int32[3, 1]) === ArgumentError
        @test refused(ids, "x" => view(zeros(Float32, 4, 4), 1:2, 1:2)) === ArgumentError
        @test refused(ids, "x" => data; dtypes = Dict("x" => :bf16)) === ArgumentError
        @test refused(ids, "a\0b" => data) === ArgumentError
        @test refused(ids, "x" => data, "y" => [data[1:1], data[2:2]]) === DimensionMismatch
        @test refused(ids; positions = [1]) === DimensionMismatch
        @test refused(ids, "x" => data; device = (:CUDA, 0)) === :UNSUPPORTED  # which no machine of the tests has
        @test refused(ids, "x" => data; positions = [1, 3]) === Nothing  # is found when the save runs
        save = Save(session, "b")
        add_table!(save, "t", ids, "x" => data)
        run(save)
        reader = Reader(store)
        share = Share(reader, "t")
        loaded(arguments...; settings...) =
            status_of(() -> add_table!(Load(reader), share, 1, arguments...; settings...))
        @test loaded(ids, "x" => Int32[0, 0]) === ArgumentError
        @test loaded(UInt64[0, 0]) === ArgumentError
        @test loaded(ids, "x" => data[1:1]) === :INVALID
        @test loaded(ids, "y" => data) === :NOT_FOUND
        @test loaded(nothing) === :INVALID
        @test loaded(ids, "x" => data; device = (:CUDA, 0)) === :UNSUPPORTED
        close(share)
        @test loaded(ids) === InvalidStateException
    end
end
