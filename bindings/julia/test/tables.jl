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
