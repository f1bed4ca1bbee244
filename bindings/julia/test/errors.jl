@testset "an error has status, message and details" begin
    with_checkpoint("errors", save -> add_tensor!(save, "w", Float32[1, 2])) do reader
        error = thrown(() -> load_tensor(reader, "absent"))
        @test error isa CkptError
        @test error.status === :NOT_FOUND
        @test error.code == 20
        @test error.details["tensor"] == "absent"
        @test occursin("absent", error.message)
        @test startswith(sprint(showerror, error), "CkptError: NOT_FOUND: ")
        load = Load(reader)
        error = thrown(() -> add_tensor!(load, "w", zeros(Float32, 3)))
        @test error.status === :MISMATCH
        @test error.details["tensor"] == "w"
        @test !isempty(error.details["expected"])
    end
end

@testset "an unknown status is kept as a number" begin
    error = CkptError(Int32(999), :UNKNOWN, "new", Dict{String,String}())
    @test sprint(showerror, error) == "CkptError: UNKNOWN (999): new"
end

@testset "text with a NUL is no C text, and trees keep it" begin
    @test_throws ArgumentError Store("mem:a\0b")
    @test Ckpt.value(Tree("a\0b")) == "a\0b"
end
