# State trees.

tree(world, line) = object(world, line.words[1])

command("tree.new", 1) do world, line
    keep!(() -> Tree(), world, line.words[1])
end

command("tree.parse", 2) do world, line
    keep!(() -> Ckpt.parse_tree(line.words[2]), world, line.words[1])
end

command("tree.json", 2) do world, line
    same([line.words[2]], [Ckpt.json(tree(world, line))])
end

command("tree.key", 2) do world, line
    Ckpt.key!(tree(world, line), line.words[2])
end

command("tree.key_int", 2) do world, line
    Ckpt.key!(tree(world, line), parse(Int64, line.words[2]))
end

command("tree.null", 1) do world, line
    Ckpt.add!(tree(world, line), nothing)
end

command("tree.bool", 2) do world, line
    Ckpt.add!(tree(world, line), line.words[2] != "0")
end

command("tree.int", 2) do world, line
    Ckpt.add!(tree(world, line), parse(Int64, line.words[2]))
end

command("tree.bigint", 2) do world, line
    Ckpt.add_bigint!(tree(world, line), line.words[2])
end

command("tree.float", 2) do world, line
    Ckpt.add!(tree(world, line), parse(Float64, line.words[2]))
end

command("tree.text", 2) do world, line
    Ckpt.add!(tree(world, line), line.words[2])
end

command("tree.bytes", 2) do world, line
    Ckpt.add!(tree(world, line), from_hex(line.words[2]))
end

command("tree.tensor", 1; keys = ("name", "path")) do world, line
    found = add_tensor!(tree(world, line); name = key(line, "name"))
    wanted = key(line, "path")
    isnothing(wanted) || same([wanted], [found])
end

command("tree.begin", 2; keys = ("class",)) do world, line
    Ckpt.begin_node!(tree(world, line), Symbol(uppercase(line.words[2])); class = key(line, "class"))
end

command("tree.end", 1) do world, line
    Ckpt.end_node!(tree(world, line))
end

command("tree.count", 2) do world, line
    found = length(tree(world, line))
    found == parse(Int, line.words[2]) || fail("$(line.words[2]) nodes, found $found")
end

# What a node is, by the keys that scenarios ask for; the others are as C has them in a node of another kind.
function node_facts(node)
    value, kind = node.value, node.kind
    key_kind = isnothing(node.key) ? "none" : node.key isa String ? "text" : "int"
    return Dict{String,Any}(
        "kind" => lowercase(string(kind)), "key_kind" => key_kind,
        "key" => node.key isa String ? node.key : "", "key_int" => node.key isa Int64 ? node.key : 0,
        "bool" => kind === :BOOL ? value : false, "int" => kind === :INT ? value : 0,
        "float" => kind === :FLOAT ? value : 0.0, "bytes" => kind === :BYTES ? value : UInt8[],
        "text" => kind === :BIGINT ? string(value) : value isa String ? value : "", "child_count" => node.child_count,
        "first_child" => something(node.first_child, "-"), "next_sibling" => something(node.next_sibling, "-"),
        "parent" => something(node.parent, "-"))
end

command("tree.node", 2; keys = nothing) do world, line
    expect(node_facts(Ckpt.node(tree(world, line), parse(Int, line.words[2]))), line)
end

command("tree.find", 4) do world, line
    found = Ckpt.child(tree(world, line), parse(Int, line.words[2]), line.words[3])
    same([line.words[4]], [string(found)])
end

command("tree.find_int", 4) do world, line
    found = Ckpt.child(tree(world, line), parse(Int, line.words[2]), parse(Int64, line.words[3]))
    same([line.words[4]], [string(found)])
end

command("tree.native", 2) do world, line
    keep!(() -> Tree(Ckpt.value(tree(world, line))), world, line.words[2])
end
