@testset "structs are laid out as in C" begin
    for (type, bytes, fields) in Ckpt.LAYOUTS
        @test sizeof(type) == bytes
        @test fieldcount(type) == length(fields)
        for (i, (name, offset, width)) in enumerate(fields)
            @test fieldnames(type)[i] === name
            @test fieldoffset(type, i) == offset
            @test sizeof(fieldtype(type, i)) == width
        end
    end
end

@testset "the library is the version that was asked for, or later" begin
    version = Ckpt.version()
    @test version >= VersionNumber("0.1.0")
    @test Ckpt.version_number() == version.major * 1_000_000 + version.minor * 1000 + version.patch
    @test_throws ErrorException Ckpt.check_version(1_000_000)
    @test_throws ErrorException Ckpt.check_version(2000)
end

@testset "every status has its number and name; unknown ones stay numbers" begin
    for (name, number) in Ckpt.STATUSES
        @test Ckpt.status_name(number) === name
        @test Ckpt.status_code(name) == number
    end
    @test Ckpt.status_name(999) === :UNKNOWN
    @test Ckpt.name_of(Ckpt.JOB_STATES, 99) == 99
    @test_throws ArgumentError Ckpt.status_code(:NOTHING)
end

@testset "a dtype is found by name, number and Julia type" begin
    for (_, number) in Ckpt.DTYPES
        @test DType(nameof(DType(number))) === DType(number)
        @test Ckpt.bits(DType(number)) == number % 256
    end
    @test DType(Float32) === DType("f32") === DType(:f32)
    @test DType(Complex{Float64}) === DType("c128")
    @test string(DType(:bf16)) == "DType(\"bf16\")"
    @test_throws ArgumentError DType(Int128)
    @test_throws ArgumentError DType(String)
    @test_throws ArgumentError DType("f31")
end

@testset "options are listed and their values checked by the library" begin
    options = Ckpt.options()
    threads = options[findfirst(option -> option.key == "threads", options)]
    @test threads.kind === :INT && threads.min == 0 && threads.max == 256
    @test status_of(() -> Store("mem:options"; threads = 257)) === :INVALID
    @test status_of(() -> Store("mem:options"; nonsense = 1)) === :INVALID
    @test status_of(() -> Store("mem:options"; compression = "zip")) === :INVALID
    @test_throws ArgumentError Store("mem:options"; threads = 1.5)
end
