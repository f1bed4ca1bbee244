# State trees from and to Julia values.

"""
    TreeDict()    TreeDict("lr" => 0.1, 0 => "zero")

A dict of a state tree. Keys are text or integers, `0` and `"0"` are two keys, and the entries keep their order. An
ordinary `Dict` can be saved too, in the order in which it iterates; it is loaded as a TreeDict.
"""
struct TreeDict <: AbstractDict{Union{Int64,String},Any}
    keys::Vector{Union{Int64,String}}
    values::Vector{Any}
    places::Dict{Union{Int64,String},Int}
    function TreeDict(entries::Pair...)
        dict = new(Union{Int64,String}[], Any[], Dict{Union{Int64,String},Int}())
        for (key, value) in entries
            dict[key] = value
        end
        return dict
    end
end

tree_key(key::AbstractString) = String(key)
tree_key(key::Integer) = Int64(key)
tree_key(key::Bool) = throw(ArgumentError("$key is no key of a tree: text or an integer is"))
tree_key(key) = throw(ArgumentError("a $(typeof(key)) is no key of a tree: text or an integer is"))

Base.length(dict::TreeDict) = length(dict.keys)
Base.iterate(dict::TreeDict, at = 1) =
    at > length(dict.keys) ? nothing : (Pair{Union{Int64,String},Any}(dict.keys[at], dict.values[at]), at + 1)
Base.haskey(dict::TreeDict, key) = haskey(dict.places, tree_key(key))

function Base.get(dict::TreeDict, key, default)
    at = get(dict.places, tree_key(key), 0)
    return at == 0 ? default : dict.values[at]
end

function Base.getindex(dict::TreeDict, key)
    at = get(dict.places, tree_key(key), 0)
    at == 0 && throw(KeyError(key))
    return dict.values[at]
end

function Base.setindex!(dict::TreeDict, value, key)
    name = tree_key(key)
    at = get(dict.places, name, 0)
    if at == 0
        push!(dict.keys, name)
        push!(dict.values, value)
        dict.places[name] = length(dict.keys)
    else
        dict.values[at] = value
    end
    return dict
end

"A set of a state tree. Its elements keep their order, and equal ones may occur twice."
struct TreeSet
    items::Vector{Any}
end

TreeSet(items::AbstractSet) = TreeSet(collect(Any, items))
Base.length(set::TreeSet) = length(set.items)
Base.iterate(set::TreeSet, at...) = iterate(set.items, at...)
Base.:(==)(a::TreeSet, b::TreeSet) = a.items == b.items

"An object of class `class` (\"torch.Size\") of the program that saved it: its items under text keys."
struct Record
    class::String
    items::TreeDict
    Record(class::AbstractString, items::TreeDict) = new(String(class), items)
    Record(class::AbstractString, items::Pair...) = new(String(class), TreeDict(items...))
end

Base.:(==)(a::Record, b::Record) = a.class == b.class && a.items == b.items

"""
    PerRank(rank, value)

What is each rank's own in a tree, such as a random state or a position in the data: rank `rank` saves its value so.
[`Ckpt.own`](@ref) reads it.
"""
PerRank(rank::Integer, value) = Record(CKPT_PER_RANK_CLASS, "rank$rank" => value)

"The value of one rank, of a `PerRank` that was loaded with the keyword `rank`; ArgumentError for anything else."
function own(record::Record)
    record.class == CKPT_PER_RANK_CLASS && length(record.items) == 1 ||
        throw(ArgumentError("expected a $CKPT_PER_RANK_CLASS of one rank, found $(length(record.items)) items of a " *
                            "$(record.class): load the state with the keyword rank"))
    return record.items.values[1]
end

"A leaf of a tree: the tensor of that name in the checkpoint."
struct TensorRef
    name::String
end

"""
    Tree(value)

A tree of a Julia value: `nothing`, Bool, integers of any size, floats, text, `Vector{UInt8}` (bytes), vectors of
anything but numbers (lists: write `Any[1, 2]`), tuples, sets and `TreeSet`, `Dict`, `TreeDict` and named tuples,
`Record`, `TensorRef`. Other numeric arrays are tensors, which need a save: pass them to [`save_state`](@ref).
"""
Tree(value) = encoded(value, refuse_array)

refuse_array(_, _) = throw(ArgumentError("a numeric array is a tensor: pass it to save_state; Any[…] is a list"))

function encoded(value, on_array)
    tree = Tree()
    encode!(tree, value, on_array)
    return tree
end

# Calls on_array(array, add) for each tensor. add(name) adds its leaf and returns the name; add(nothing) uses its path.
encode!(tree, value::Union{Nothing,Integer,AbstractFloat,AbstractString}, _) = add!(tree, value)
encode!(tree, value::AbstractVector{UInt8}, _) = add!(tree, value)
encode!(tree, value::TensorRef, _) = (add_tensor!(tree; name = value.name); nothing)

function encode!(tree, value::AbstractArray, on_array)
    if eltype(value) <: Number
        on_array(value, name -> add_tensor!(tree; name))
    elseif ndims(value) == 1
        encode_items!(tree, :LIST, value, on_array)
    else
        throw(ArgumentError("a $(typeof(value)) is neither a tensor nor a list"))
    end
    return nothing
end

encode!(tree, value::Tuple, on_array) = encode_items!(tree, :TUPLE, value, on_array)
encode!(tree, value::Union{AbstractSet,TreeSet}, on_array) = encode_items!(tree, :SET, value, on_array)
encode!(tree, value::Record, on_array) = encode_pairs!(tree, :RECORD, value.items, on_array; class = value.class)
encode!(tree, value::Union{AbstractDict,NamedTuple}, on_array) = encode_pairs!(tree, :DICT, value, on_array)
encode!(_, value, _) = throw(ArgumentError("a $(typeof(value)) has no place in a state tree"))

function encode_items!(tree, kind, items, on_array)
    begin_node!(tree, kind)
    for item in items
        encode!(tree, item, on_array)
    end
    end_node!(tree)
end

function encode_pairs!(tree, kind, items, on_array; class = nothing)
    begin_node!(tree, kind; class)
    for (key, value) in pairs(items)
        key!(tree, key isa Symbol ? string(key) : tree_key(key))
        encode!(tree, value, on_array)
    end
    end_node!(tree)
end

"""
    Ckpt.value(tree)

The Julia value of a tree: `nothing`, Bool, Int64, BigInt (what is beyond Int64), Float64, String, Vector{UInt8},
TensorRef, Vector{Any}, Tuple, TreeSet, TreeDict, Record.
"""
value(tree::Tree) = decode(tree, node(tree, 0), TensorRef)

# A tensor becomes on_tensor(name).
function decode(tree::Tree, node::Node, on_tensor)
    node.kind === :TENSOR && return on_tensor(node.value)
    node.kind in (:LIST, :TUPLE, :SET) && return decode_items(tree, node, on_tensor)
    node.kind === :DICT && return decode_pairs(tree, node, on_tensor)
    node.kind === :RECORD && return Record(node.value, decode_pairs(tree, node, on_tensor))
    node.kind isa Symbol || throw(ArgumentError("a node of kind $(node.kind), which this version does not know"))
    return node.value
end

# f(child) for the children of a node, in order.
function each_child(f, tree::Tree, parent::Node)
    number = parent.first_child
    while !isnothing(number)
        child = node(tree, number)
        f(child)
        number = child.next_sibling
    end
    return nothing
end

function decode_items(tree::Tree, parent::Node, on_tensor)
    items = Any[]
    each_child(child -> push!(items, decode(tree, child, on_tensor)), tree, parent)
    parent.kind === :TUPLE && return Tuple(items)
    return parent.kind === :SET ? TreeSet(items) : items
end

function decode_pairs(tree::Tree, parent::Node, on_tensor)
    dict = TreeDict()
    each_child(child -> (dict[child.key] = decode(tree, child, on_tensor)), tree, parent)
    return dict
end
