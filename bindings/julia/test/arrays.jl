const NUMBERS = (Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64)

@testset "every type of number comes back as it was" begin
    arrays = Dict(string(T) => T[T(i) for i in 1:7] for T in NUMBERS)
    arrays["Bool"] = Bool[true, false, true]
    for T in (Float16, Float32, Float64)
        arrays["Complex$T"] = Complex{T}[Complex{T}(1, 2), Complex{T}(-3, 0.5)]
    end
    with_checkpoint("numbers", save -> add_all!(save, arrays)) do reader
        for (name, array) in arrays
            found = load_tensor(reader, name)
            @test typeof(found) == typeof(array)
            @test found == array
            @test map_tensor(reader, name) == array
        end
    end
end

@testset "the shape is the size reversed, and the memory is as it was" begin
    matrix = reshape(collect(Float32, 1:6), 2, 3)
    with_checkpoint("reversed", save -> add_tensor!(save, "m", matrix)) do reader
        @test Ckpt.tensor(reader, "m").shape == [3, 2]
        @test size(Ckpt.tensor(reader, "m")) == (2, 3)
        @test load_tensor(reader, "m") == matrix
        raw = zeros(UInt8, 24)
        load = Load(reader)
        add_tensor!(load, "m", TensorDesc(:f32, (3, 2)), raw)
        run(load)
        @test raw == reinterpret(UInt8, vec(matrix))
    end
end

@testset "with order = :same the indices are the same in every language" begin
    matrix = reshape(collect(Float32, 1:6), 2, 3)
    with_checkpoint("same", save -> add_tensor!(save, "m", matrix; order = :same)) do reader
        @test Ckpt.tensor(reader, "m").shape == [2, 3]
        @test load_tensor(reader, "m"; order = :same) == matrix
        @test map_tensor(reader, "m"; order = :same) == matrix
        @test load_tensor(reader, "m")[3, 2] == matrix[2, 3]
    end
    @test_throws ArgumentError Ckpt.describe(matrix; order = :other)
end

@testset "views, permuted arrays, scalars and empty arrays need no copy" begin
    cube = reshape(collect(Int32, 1:60), 3, 4, 5)
    parts = Dict("columns" => view(cube, :, 2:3, :), "steps" => view(cube, 1:2:3, 4, :),
                 "turned" => PermutedDimsArray(cube, (3, 1, 2)), "scalar" => fill(Int32(7)),
                 "empty" => zeros(Int32, 3, 0), "vector" => view(vec(cube), 11:20))
    with_checkpoint("views", save -> add_all!(save, parts)) do reader
        for (name, part) in parts
            @test load_tensor(reader, name) == collect(part)
            @test size(load_tensor(reader, name)) == size(part)
        end
        target = zeros(Int32, 3, 4, 5)
        load = Load(reader)
        add_tensor!(load, "columns", view(target, :, 2:3, :))
        run(load)
        @test target[:, 2:3, :] == cube[:, 2:3, :]
        @test all(iszero, target[:, 1, :]) && all(iszero, target[:, 4, :])
    end
end

@testset "what is no plain strided memory is refused before anything is saved" begin
    open(Store, "mem:refused") do store
        save = Save(Session(store), "a")
        @test_throws ArgumentError add_tensor!(save, "range", 1:5)
        @test_throws ArgumentError add_tensor!(save, "bits", falses(8))
        @test_throws ArgumentError add_tensor!(save, "picked", view(collect(1:5), [1, 3]))
        @test_throws ArgumentError add_tensor!(save, "text", ["a", "b"])
        @test_throws ArgumentError add_tensor!(save, "wrong width", Float32[1]; dtype = :bf16)
        @test_throws ArgumentError add_tensor!(save, "backwards", view(collect(1:5), 5:-1:1))
    end
end

@testset "a box is ranges of the whole, in the array's own order" begin
    whole = reshape(collect(Float64, 1:48), 6, 8)
    fill_all(save) = add_tensor!(save, "w", whole)
    with_checkpoint("boxes", fill_all) do reader
        part = zeros(2, 3)
        load = Load(reader)
        add_tensor!(load, "w", part; whole = (6, 8), box = (3:4, 5:7))
        flat = zeros(10)
        add_tensor!(load, "w", flat; whole = (6, 8), flat = 11:20)
        run(load)
        @test part == whole[3:4, 5:7]
        @test flat == vec(whole)[11:20]
        other = Load(reader)
        @test_throws DimensionMismatch add_tensor!(other, "w", part; whole = (6, 8), box = (3:4, 5:8))
        @test_throws DimensionMismatch add_tensor!(other, "w", part; whole = (6, 8))
        @test_throws DimensionMismatch add_tensor!(other, "w", flat; whole = (6, 8), flat = 1:9)
        @test_throws ArgumentError add_tensor!(other, "w", view(whole, 1:2, 1:5); whole = (6, 8), flat = 1:10)
        @test status_of(() -> add_tensor!(other, "w", part; whole = (6, 8), box = (6:7, 1:3))) === :INVALID
    end
end

@testset "dtypes without a Julia type travel as bits, and only when asked" begin
    bits = UInt16[0x3f80, 0x4000, 0x4040]
    with_checkpoint("bf16", save -> add_tensor!(save, "b", bits; dtype = :bf16)) do reader
        @test Ckpt.tensor(reader, "b").dtype === DType(:bf16)
        @test_throws ArgumentError load_tensor(reader, "b")
        @test load_tensor(reader, "b"; bits = true) == bits
        @test load_tensor(reader, "b"; as = Float32) == Float32[1, 2, 3]
        @test map_tensor(reader, "b"; bits = true) == bits
    end
    packed = UInt8[0x21, 0x43]
    with_checkpoint("i4", save -> add_tensor!(save, "p", TensorDesc(:i4, (4,)), packed)) do reader
        @test collect(Ckpt.map_bytes(reader, "p")) == packed
        @test_throws ArgumentError load_tensor(reader, "p"; bits = true)
    end
end

@testset "a mapped tensor is an array that can be saved again and not loaded into" begin
    with_checkpoint("mapped", save -> add_tensor!(save, "w", reshape(collect(Float32, 1:6), 2, 3))) do reader
        tensor = map_tensor(reader, "w")
        @test tensor isa AbstractMatrix{Float32}
        @test tensor[2, 3] == 6 && sum(tensor) == 21
        @test_throws BoundsError tensor[3, 1]
        @test_throws ArgumentError add_tensor!(Load(reader), "w", tensor)
        @test_throws ArgumentError add_tensor!(Load(reader), "w", view(tensor, 1:2, 1:3))
        with_checkpoint("again", save -> add_tensor!(save, "w", tensor)) do again
            @test load_tensor(again, "w") == tensor
        end
    end
end
