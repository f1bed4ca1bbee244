# Tests of Ckpt.jl; every name is a claim. They need libckpt (ENV["JULIA_CKPT_LIBRARY"] or the loader's path), about
# 5 GiB of memory, and two threads (JULIA_NUM_THREADS=2), since ranks that meet through a store block theirs.

using Ckpt
using Mmap
using Test

Threads.nthreads() >= 2 || error("start Julia with two threads: JULIA_NUM_THREADS=2")

const FILES = joinpath(@__DIR__, "..", "..", "torch", "tests", "files")

# What a call throws.
function thrown(f)
    try
        f()
    catch error
        return error
    end
    return nothing
end

status_of(f) = (error = thrown(f); error isa CkptError ? error.status : typeof(error))

add_all!(save, arrays) = foreach(name -> add_tensor!(save, name, arrays[name]), collect(keys(arrays)))

# A store in memory of its own, a session, and one checkpoint that `fill(save)` makes.
function with_checkpoint(check, name, fill)
    open(Store, "mem:$name") do store
        session = Session(store)
        save = Save(session, "a"; step = 1)
        fill(save)
        run(save)
        open(check, Reader, store)
    end
end

@testset "Ckpt" begin
    include("library.jl")
    include("arrays.jl")
    include("errors.jl")
    include("handles.jl")
    include("jobs.jl")
    include("ranks.jl")
    include("stores.jl")
    include("tables.jl")
    include("trees.jl")
    include("files.jl")
    include("keepers.jl")
    include("big.jl")
end
