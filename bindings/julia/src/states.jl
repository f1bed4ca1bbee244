# A whole state in one call: nested Julia values with arrays among their leaves.

"""
    save_state(session, label, state; step = nothing, order = :reversed, options…)
    save_state(save, state; name = nothing, order = :reversed)

Saves nested dicts, vectors, tuples, numbers and text; numeric arrays anywhere in them become tensors (README.md has
the table). The first form runs the save; the second adds the state to a save that you run or start. An array that
occurs twice is saved once. An array whose type has no dtype is an ArgumentError.
"""
function save_state(session::Session, label::AbstractString, state; step = nothing, order = :reversed, options...)
    save = Save(session, label; step, options...)
    try
        save_state(save, state; order)
        run(save)
    finally
        close(save)
    end
    return nothing
end

function save_state(save::Save, state; name = nothing, order = :reversed)
    names = IdDict{Any,String}()
    arrays = Pair{String,Any}[]
    tree = encoded(state, (array, add) -> begin
        known = get(names, array, nothing)
        given = add(known)
        isnothing(known) || return given
        names[array] = given
        push!(arrays, given => array)
        return given
    end)
    try
        for (given, array) in arrays
            add_tensor!(save, given, array; order)
        end
        add_tree!(save, tree; name)
    finally
        close(tree)
    end
    return nothing
end

"""
    load_state(reader; name = nothing, rank = nothing, order = :reversed, bits = false, options…)

Loads the state tree of a checkpoint, with its tensors in new arrays. Two leaves of one tensor become one array. Of a
checkpoint without a tree it returns a `TreeDict` of all tensors by name. With `rank`, a [`PerRank`](@ref) holds only
what that rank saved (what rank 0 saved, if there were fewer). Options are those of `Load`.
"""
function load_state(reader::Reader; name = nothing, rank = nothing, order = :reversed, bits = false, options...)
    arrays = Dict{String,Any}()
    load = Load(reader; options...)
    tree = Tree(reader; name, rank)
    try
        state = decode(tree, node(tree, 0), wanted -> get!(arrays, wanted) do
            described = tensor(reader, wanted)
            extent = order === :same ? described.shape : reverse(described.shape)
            array = Array{julia_type(described.dtype, bits)}(undef, extent...)
            add_tensor!(load, wanted, array; order, dtype = described.dtype)
            array
        end)
        run(load)
        return state
    finally
        close(tree)
        close(load)
    end
end
