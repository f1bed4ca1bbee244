# State trees.

tree(call) = object(call, 1)

command(call -> keep!(call, 1, Tree()), "tree.new")
command(call -> keep!(call, 1, Ckpt.parse_tree(call.words[2])), "tree.parse")
command(call -> String[Ckpt.json(tree(call))], "tree.json")
command(call -> Ckpt.key!(tree(call), call.words[2]), "tree.key")
command(call -> Ckpt.key!(tree(call), parse(Int64, call.words[2])), "tree.key_int")
command(call -> Ckpt.add!(tree(call), nothing), "tree.null")
command(call -> Ckpt.add!(tree(call), call.words[2] != "0"), "tree.bool")
command(call -> Ckpt.add!(tree(call), parse(Int64, call.words[2])), "tree.int")
command(call -> Ckpt.add_bigint!(tree(call), call.words[2]), "tree.bigint")
command(call -> Ckpt.add!(tree(call), parse(Float64, call.words[2])), "tree.float")
command(call -> Ckpt.add!(tree(call), call.words[2]), "tree.text")
command(call -> Ckpt.add!(tree(call), bytes_of(call.words[2])), "tree.bytes")

command(call -> Dict("path" => add_tensor!(tree(call); name = key(call, "name"))), "tree.tensor")

command("tree.begin") do call
    Ckpt.begin_node!(tree(call), Symbol(uppercase(call.words[2])); class = key(call, "class"))
end

command(call -> Ckpt.end_node!(tree(call)), "tree.end")
command(call -> [string(length(tree(call)))], "tree.count")

# Values that are not fields of a node; for a node of another kind they are as in C.
function node_facts(node)
    value, kind = node.value, node.kind
    key_kind = isnothing(node.key) ? "none" : node.key isa String ? "text" : "int"
    found = record(node; key_kind, key = node.key isa String ? node.key : "",
                   key_int = node.key isa Int64 ? node.key : 0, bool = kind === :BOOL ? value : false,
                   int = kind === :INT ? value : 0, float = kind === :FLOAT ? value : 0.0,
                   text = kind === :BIGINT ? string(value) : value isa String ? value : "",
                   first_child = something(node.first_child, "-"), next_sibling = something(node.next_sibling, "-"),
                   parent = something(node.parent, "-"))
    kind === :BYTES && (found["bytes"] = value)
    return found
end

command(call -> node_facts(Ckpt.node(tree(call), integer(call, 2))), "tree.node")
command(call -> [string(Ckpt.child(tree(call), integer(call, 2), call.words[3]))], "tree.find")
command(call -> [string(Ckpt.child(tree(call), integer(call, 2), parse(Int64, call.words[3])))], "tree.find_int")
command(call -> keep!(call, 2, Tree(Ckpt.value(tree(call)))), "tree.native")
