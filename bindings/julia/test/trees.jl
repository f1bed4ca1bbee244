@testset "a native value comes back from a tree as it was" begin
    state = TreeDict("a" => nothing, "b" => Any[true, false, 1, -2, 2.5, "text", UInt8[0x00, 0xff]],
                     0 => (1, "two"), "0" => TreeSet(Any["x", "y"]), "big" => big(2)^70,
                     "size" => Record("torch.Size", "n" => 3),
                     "w" => TensorRef("model/w"), "empty" => TreeDict(), "minus" => -0.0)
    tree = Tree(state)
    found = Ckpt.value(tree)
    @test found == state
    @test collect(keys(found)) == collect(keys(state))
    @test isequal(found["minus"], -0.0)
    @test isnan(Ckpt.value(Tree(NaN)))
    @test Ckpt.json(Tree(found)) == Ckpt.json(tree)
    @test Ckpt.value(Ckpt.parse_tree(Ckpt.json(tree))) == state
end

@testset "text and integer keys are apart, and the order is kept" begin
    dict = TreeDict(1 => "int", "1" => "text")
    @test length(dict) == 2 && dict[1] == "int" && dict["1"] == "text"
    dict[1] = "other"
    @test collect(keys(dict)) == [1, "1"]
    @test haskey(dict, 1) && !haskey(dict, 2) && get(dict, 2, "none") == "none"
    @test_throws KeyError dict[2]
    @test_throws ArgumentError dict[true]
    @test_throws ArgumentError dict[1.5]
    @test Ckpt.value(Tree((a = 1, b = "x"))) == TreeDict("a" => 1, "b" => "x")
    @test Ckpt.value(Tree(Dict("k" => 1))) == TreeDict("k" => 1)
    @test Ckpt.value(Tree(Set(["x"]))) == TreeSet(Any["x"])
end

@testset "values that a tree cannot keep are refused" begin
    @test_throws ArgumentError Tree(Float32[1, 2])
    @test_throws ArgumentError Tree(:symbol)
    @test_throws ArgumentError Tree(1:3)
    @test_throws ArgumentError Tree(TreeDict("f" => sin))
    @test status_of(() -> Ckpt.value(Ckpt.parse_tree("{]"))) === :FORMAT
end

@testset "a state with arrays in it is saved and loaded in one call each" begin
    weight = reshape(collect(Float32, 1:6), 2, 3)
    state = TreeDict("model" => TreeDict("w" => weight, "tied" => weight, "bytes" => UInt8[1, 2]),
                     "optimizer" => TreeDict("state" => TreeDict(0 => TreeDict("step" => 7, "exp_avg" => zeros(2))),
                                             "betas" => (0.9, 0.999)), "epoch" => 3)
    store = Store("mem:state")
    save_state(Session(store), "s", state; step = 3, compression = "lz4")
    reader = Reader(store)
    @test [tensor.name for tensor in Ckpt.tensors(reader)] == ["model/w", "optimizer/state/0/exp_avg"]
    found = load_state(reader)
    @test found == state
    @test found["model"]["w"] === found["model"]["tied"]
    @test load_state(reader; order = :same)["model"]["w"] == collect(PermutedDimsArray(weight, (2, 1)))
    plain = Store("mem:plain")
    save = Save(Session(plain), "p")
    add_tensor!(save, "a/b", Float32[1])
    run(save)
    @test load_state(Reader(plain)) == TreeDict("a/b" => Float32[1])
end
