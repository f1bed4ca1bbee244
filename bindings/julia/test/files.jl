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
