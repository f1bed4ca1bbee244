# State trees node by node. Most programs want them as Julia values: tree_values.jl.

"""
    Tree()                           empty, to be built
    Tree(value)                      of a Julia value
    Tree(reader; name = nothing)     the tree of a checkpoint, or its tree called `name`
    Tree(file)                       all that a file holds; it keeps the file open
    Ckpt.parse_tree(json)            from the JSON of schemas/STATE_TREE.md

A state tree: dicts, lists, numbers, text, and tensors as leaves. One task builds it, in document order; then several
may read it at once. Nodes are numbered in document order, and the root is 0.
"""
struct Tree <: Resource
    handle::Union{Handle{ckpt_tree},Handle{ckpt_file}}
    borrowed::Ptr{ckpt_tree}  # of a file, whose handle it then has; else null
end

Tree(handle::Handle{ckpt_tree}) = Tree(handle, Ptr{ckpt_tree}(C_NULL))
Tree() = Tree(made((out, err) -> ckpt_tree_new(out, err), ckpt_tree))

function Tree(reader::Reader; name = nothing, rank = nothing)
    of = something(name, C_NULL)
    return use(reader.handle) do pointer
        read_tree(out, err) =
            isnothing(rank) ? ckpt_reader_tree(pointer, of, out, err) :
            ckpt_reader_tree_of_rank(pointer, of, rank, out, err)
        Tree(made(read_tree, ckpt_tree))
    end
end

"The tree of a JSON text that follows schemas/STATE_TREE.md. Throws FORMAT, REVISION."
function parse_tree(json::AbstractString)
    text = String(json)
    return Tree(made((out, err) -> ckpt_tree_parse(out, text, sizeof(text), err), ckpt_tree))
end

# Calls f(pointer) with a tree of its own or a file's.
use_tree(f, tree::Tree) = use(pointer -> f(pointer isa Ptr{ckpt_tree} ? pointer : tree.borrowed), tree.handle)

# f(pointer, err) is a C call that changes the tree; a file's tree cannot be changed.
function build(f, tree::Tree)
    tree.handle isa Handle{ckpt_tree} || throw(ArgumentError("the tree of a file cannot be changed"))
    call_alone(f, tree.handle)
    return nothing
end

"Frees the tree; that of a file lives as long as the file."
Base.close(tree::Tree) = tree.handle isa Handle{ckpt_tree} ? shut(tree.handle) : nothing

# ---- build ----

"Sets the key of the value that is added next to a dict or record: text, or an integer (dicts only)."
function key!(tree::Tree, key::AbstractString)
    text = String(key)
    build((pointer, err) -> ckpt_tree_key(pointer, text, sizeof(text), err), tree)
end
key!(tree::Tree, key::Integer) = build((pointer, err) -> ckpt_tree_key_int(pointer, key, err), tree)

"""
    add!(tree, value)

Adds a leaf: `nothing`, a Bool, an integer of any size, a float, text, or a `Vector{UInt8}` as bytes.
"""
add!(tree::Tree, ::Nothing) = build((pointer, err) -> ckpt_tree_add_null(pointer, err), tree)
add!(tree::Tree, value::Bool) = build((pointer, err) -> ckpt_tree_add_bool(pointer, value, err), tree)

function add!(tree::Tree, value::Integer)
    typemin(Int64) <= value <= typemax(Int64) || return add_bigint!(tree, string(value))
    build((pointer, err) -> ckpt_tree_add_int(pointer, value, err), tree)
end

function add!(tree::Tree, value::AbstractFloat)
    isnan(value) || Float64(value) == value ||
        throw(ArgumentError("$value is no Float64: a tree keeps doubles"))
    build((pointer, err) -> ckpt_tree_add_float(pointer, value, err), tree)
end

function add!(tree::Tree, value::AbstractString)
    text = String(value)
    build((pointer, err) -> ckpt_tree_add_text(pointer, text, sizeof(text), err), tree)
end

function add!(tree::Tree, value::AbstractVector{UInt8})
    with_memory(contiguous_bytes(value)) do data, size
        build((pointer, err) -> ckpt_tree_add_bytes(pointer, data, size, err), tree)
    end
end

"An integer by its decimal digits with an optional `-`. Throws INVALID."
add_bigint!(tree::Tree, digits::AbstractString) =
    build((pointer, err) -> ckpt_tree_add_bigint(pointer, digits, err), tree)

"Adds a tensor as a leaf. Returns the name to save it under: `name`, or its path in the tree."
function add_tensor!(tree::Tree; name = nothing)
    given = something(name, C_NULL)
    path = Ref{Cstring}(C_NULL)
    tree.handle isa Handle{ckpt_tree} || throw(ArgumentError("the tree of a file cannot be changed"))
    enter_alone(tree.handle)
    try
        checked(err -> ckpt_tree_add_tensor((@atomic tree.handle.pointer), given, path, err))
        return unsafe_string(path[])
    finally
        leave(tree.handle)
    end
end

"Begins a container: `kind` is `:LIST`, `:TUPLE`, `:SET`, `:DICT` or `:RECORD`; a record has a `class`."
function begin_node!(tree::Tree, kind::Symbol; class = nothing)
    number, name = number_of(NODE_KINDS, kind), something(class, C_NULL)
    build((pointer, err) -> ckpt_tree_begin(pointer, number, name, err), tree)
end

"Ends the container that began last."
end_node!(tree::Tree) = build((pointer, err) -> ckpt_tree_end(pointer, err), tree)

# ---- read ----

"""
One node of a tree. `kind` is `:NULL`, `:BOOL`, …, `:RECORD`. `key` is text, an integer, or `nothing` for the root and
in lists, tuples and sets. `value` is the value of a leaf, the name of a tensor, the class of a record, or else
`nothing`. `first_child`, `next_sibling` and `parent` are node numbers or `nothing`.
"""
struct Node
    kind::Union{Symbol,Int}
    key::Union{Nothing,String,Int64}
    value::Any
    child_count::Int
    first_child::Union{Int,Nothing}
    next_sibling::Union{Int,Nothing}
    parent::Union{Int,Nothing}
end

# Called while the tree is in use, since the texts are borrowed from it.
function Node(raw::ckpt_node)
    key = raw.key_kind == CKPT_KEY_INT ? raw.key_int :
          raw.key_kind == CKPT_KEY_TEXT ? counted(raw.key, raw.key_size) : nothing
    link(number) = number == CKPT_NODE_END ? nothing : Int(number)
    return Node(name_of(NODE_KINDS, raw.kind), key, node_value(raw), Int(raw.child_count), link(raw.first_child),
                link(raw.next_sibling), link(raw.parent))
end

counted(pointer::Ptr{UInt8}, size) = size == 0 ? "" : unsafe_string(pointer, size)

function node_value(raw::ckpt_node)
    raw.kind == CKPT_NODE_BOOL && return raw.bool_value != 0
    raw.kind == CKPT_NODE_INT && return raw.int_value
    raw.kind == CKPT_NODE_FLOAT && return raw.float_value
    raw.kind == CKPT_NODE_BIGINT && return parse(BigInt, counted(raw.text, raw.text_size))
    raw.kind == CKPT_NODE_BYTES && return UInt8[unsafe_load(raw.text, i) for i in 1:Int(raw.text_size)]
    raw.kind in (CKPT_NODE_TEXT, CKPT_NODE_TENSOR, CKPT_NODE_RECORD) && return counted(raw.text, raw.text_size)
    return nothing
end

"How many nodes a tree has."
Base.length(tree::Tree) = Int(use_tree(ckpt_tree_node_count, tree))

"The node of a number; `node(tree, 0)` is the root."
function node(tree::Tree, number::Integer)
    return use_tree(tree) do pointer
        out = sized(ckpt_node)
        checked(err -> ckpt_tree_at(pointer, number, out, err))
        Node(out[])
    end
end

"""
The number of a child node: by its key in a dict or record, by its place from 0 in a list, tuple or set. Throws
NOT_FOUND.
"""
function child(tree::Tree, parent::Integer, key::AbstractString)
    out = Ref{UInt64}(0)
    use_tree(pointer -> checked(err -> ckpt_tree_find(pointer, parent, key, out, err)), tree)
    return Int(out[])
end
function child(tree::Tree, parent::Integer, key::Integer)
    out = Ref{UInt64}(0)
    use_tree(pointer -> checked(err -> ckpt_tree_find_int(pointer, parent, key, out, err)), tree)
    return Int(out[])
end

"The tree as JSON; equal trees give equal text. Throws INVALID while the tree is unfinished."
function json(tree::Tree)
    return use_tree(tree) do pointer
        text, size = Ref{Cstring}(C_NULL), Ref{UInt64}(0)
        checked(err -> ckpt_tree_json(pointer, text, size, err))
        unsafe_string(Ptr{UInt8}(text[]), size[])
    end
end

"""
    add_tree!(save, tree; name = nothing)

Adds the tree to the save, as its main tree or under `name`. Add its tensors with `add_tensor!`; `save_state` does both.
"""
function add_tree!(save::Save, tree::Tree; name = nothing)
    given = something(name, C_NULL)
    use_tree(tree) do made_tree
        call_alone((pointer, err) -> ckpt_save_add_tree(pointer, given, made_tree, err), save.handle)
    end
    return nothing
end
