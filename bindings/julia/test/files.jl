@testset "PyTorch's files are read in place, imported and exported" begin
    file = Ckpt.File(joinpath(FILES, "net-2.15.pt"))
    @test Ckpt.format(file) == "pt"
    tensors = Ckpt.tensors(file)
    @test !isempty(tensors)
    place = findfirst(tensor -> tensor.dtype === DType(:f32) && length(tensor.shape) == 2, tensors)
    found = map_tensor(file, place)
    @test size(found) == size(tensors[place])
    @test map_tensor(file, place; order = :same)[1, 2] == found[2, 1]
    @test length(Ckpt.map_bytes(file, place)) == tensors[place].data_bytes
    tree = Tree(file)
    @test Ckpt.node(tree, 0).kind in (:DICT, :RECORD)
    @test_throws ArgumentError Ckpt.add!(tree, 1)
    close(file)
    @test_throws InvalidStateException Ckpt.format(file)
    @test_throws InvalidStateException Ckpt.node(tree, 0)
    @test found[1, 1] isa Float32

    mktempdir() do folder
        store = Store(joinpath(folder, "store"))
        info = Ckpt.import_checkpoint(store, joinpath(FILES, "net-2.15.pt"), "net"; step = 5)
        @test info.run == "main" && info.step == 5
        reader = Reader(store, info.id)
        Ckpt.export_checkpoint(reader, joinpath(folder, "net.safetensors"))
        @test Ckpt.format(Ckpt.File(joinpath(folder, "net.safetensors"))) == "safetensors"
        @test status_of(() -> Ckpt.export_checkpoint(reader, joinpath(folder, "net.safetensors"))) === :EXISTS
    end
    @test status_of(() -> Ckpt.File(joinpath(FILES, "absent.pt"))) === :NOT_FOUND
end

# A directory of DCP that two ranks wrote, in whose files tensors are cut; with ".pt", PyTorch's own conversion.
const CUT = joinpath(@__DIR__, "..", "..", "..", "interop", "tests", "fixtures", "dcp", "fsdp2")

place_of(file, name) = findfirst(tensor -> tensor.name == name, Ckpt.tensors(file))

@testset "tensors in several pieces are read whole, as boxes and as flat ranges" begin
    cut, whole = Ckpt.File(CUT), Ckpt.File("$CUT.pt")
    place = place_of(cut, "model/0.weight")
    @test Ckpt.format(cut) == "dcp"
    found = Ckpt.tensor(cut, place)
    @test found.shape == [7, 5] && found.data == C_NULL
    @test occursin("load_tensor", sprint(showerror, thrown(() -> map_tensor(cut, place))))
    all = load_tensor(cut, place)
    @test all == collect(map_tensor(whole, place_of(whole, "model/0.weight")))
    @test size(all) == (5, 7) && all isa Array{Float32,2}
    @test load_tensor(cut, place; order = :same)[4, 2] == all[2, 4]
    @test vec(load_tensor(cut, place; bits = true)) == reinterpret(UInt32, vec(all))
    part = zeros(Float32, 2, 2)
    read_tensor!(cut, place, part; whole = (5, 7), box = (2:3, 4:5))  # on both ranks
    @test part == all[2:3, 4:5]
    read_tensor!(cut, place, part; whole = (7, 5), box = (4:5, 2:3), order = :same)
    @test part[1, 2] == all[3, 4]
    flat = zeros(Float32, 4)
    read_tensor!(cut, place, flat; whole = (5, 7), flat = 19:22)
    @test flat == vec(all)[19:22]
    bytes = zeros(UInt8, 16)
    read_tensor!(cut, place, TensorDesc(:f32, (7, 5); flat = (18, 4)), bytes)
    @test reinterpret(Float32, bytes) == flat
    @test load_tensor(cut, place_of(cut, "odd/flags")) isa Vector{Bool}
    @test load_tensor(cut, place_of(cut, "odd/half"); bits = true) isa Vector{UInt16}
    @test size(load_tensor(cut, place_of(cut, "odd/number"))) == ()
end

@testset "a mapping renames and rearranges what is read" begin
    mktempdir() do folder
        path = joinpath(folder, "map.json")
        rules = """{"unmatched": "keep", "rules": [{"match": "0.weight", "to": "turned", "ops": ["a b -> b a"]}]}"""
        open(io -> write(io, rules), path, "w")
        plain, mapped = Ckpt.File(CUT), Ckpt.File(CUT; map = path, map_at = "model", tensor_data = 0)
        straight = load_tensor(plain, place_of(plain, "model/0.weight"))
        turned = load_tensor(mapped, place_of(mapped, "model/turned"); order = :same)
        @test size(turned) == (5, 7) && turned == straight
    end
end

@testset "a wrong read of a file is refused" begin
    file, data = Ckpt.File(CUT), zeros(Float32, 5, 7)
    place = place_of(file, "model/0.weight")
    @test status_of(() -> read_tensor!(file, 100, data)) === :NOT_FOUND
    @test status_of(() -> load_tensor(file, 100)) === :NOT_FOUND
    @test status_of(() -> read_tensor!(file, place, zeros(Float32, 7, 5))) === :MISMATCH
    @test thrown(() -> read_tensor!(file, place, zeros(Int32, 5, 7))).details["tensor"] == "model/0.weight"
    @test status_of(() -> read_tensor!(file, place, TensorDesc(:f32, (7, 5)), zeros(UInt8, 139))) === :INVALID
    @test thrown(() -> read_tensor!(file, place, codeunits("text"))) isa ArgumentError
    read_tensor!(file, place, data)
    kept = map_tensor(file, place_of(file, "odd/wide"))
    Ckpt.without_others(file.gate) do  # as while another task reads
        @test thrown(() -> read_tensor!(file, place, data)) isa ConcurrencyViolationError
        @test thrown(() -> Ckpt.tensor(file, place)) isa ConcurrencyViolationError
    end
    Ckpt.beside_others(file.gate) do
        @test thrown(() -> read_tensor!(file, place, data)) isa ConcurrencyViolationError
        @test Ckpt.tensor(file, place).name == "model/0.weight"
    end
    read_tensor!(file, place, data)  # a mapped tensor does not hinder it
    close(file)
    @test status_of(() -> read_tensor!(file, place, data)) === InvalidStateException
    @test length(kept) == 2
end
