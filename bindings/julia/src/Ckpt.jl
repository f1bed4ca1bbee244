"""
Saves and loads training checkpoints with the C library `libckpt`.

    using Ckpt
    store = Store("/data/run7")
    session = Session(store)                       # rank 0 of world size 1
    save = Save(session, "step-100"; step = 100)
    add_tensor!(save, "w", weights)                # any strided array; it is not copied
    run(save)                                      # when it returns: durable, complete, committed

    reader = Reader(store, "latest")
    weights = load_tensor(reader, "w")

A tensor's *shape* is row-major, as in C and Python, and the same in every language. Julia's arrays are column-major, so
the `size` of an array is the shape **reversed** unless you pass `order = :same`; README.md explains both.

A call that fails in the library throws a [`CkptError`](@ref). Indices and ranges are 1-based, as everywhere in Julia.
Ranks, parts and tree nodes have numbers from 0, as in every language: those are names, not indices.
"""
module Ckpt

using Base.Libc: Libdl

export CkptError, DType, TensorDesc
export Store, Session, Save, Reader, Load, Share, Job, Tree, MappedTensor
export TreeDict, TreeSet, Record, PerRank, TensorRef
export add_tensor!, add_table!, add_object!, add_alias!, add_tree!, set_attr!, start, cancel
export Keeper, Checkpointer, step!, restore
export load_tensor, load_table, load_object, map_tensor, read_tensor!, save_state, load_state

include("library.jl")
include("api.jl")
include("errors.jl")
include("handles.jl")
include("dtypes.jl")
include("records.jl")
include("options.jl")
include("infos.jl")
include("memory.jl")
include("background.jl")
include("stores.jl")
include("jobs.jl")
include("saves.jl")
include("mapped.jl")
include("readers.jl")
include("loads.jl")
include("tables.jl")
include("trees.jl")
include("tree_values.jl")
include("files.jl")
include("states.jl")
include("keepers.jl")
include("checkpointers.jl")

end
