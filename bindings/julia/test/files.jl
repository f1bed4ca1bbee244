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
