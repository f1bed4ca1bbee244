# Readers, loads and files.

command("reader.open", 3; options = true) do world, line
    keep!(() -> Reader(object(world, line.words[2]), line.words[3]; settings(line)...), world, line.words[1])
end

command("reader.info", 1; keys = nothing) do world, line
    expect_info(Ckpt.info(object(world, line.words[1])), line)
end

command("reader.tensors", -1) do world, line
    same(line.words[2:end], [tensor.name for tensor in Ckpt.tensors(object(world, line.words[1]))])
end

command("reader.tensor", 2; keys = nothing) do world, line
    found = Ckpt.tensor(object(world, line.words[1]), line.words[2])
    expect(Dict{String,Any}("dtype" => found.dtype, "shape" => found.shape, "bytes" => found.bytes,
                            "stored_bytes" => found.stored_bytes, "segment_count" => found.segment_count,
                            "alias_of" => found.alias_of), line)
end

command("reader.alias", 2; keys = nothing) do world, line
    raw = Ckpt.alias(object(world, line.words[1]), line.words[2]).raw
    expect(Dict{String,Any}("dtype" => DType(raw.dtype), "shape" => Ckpt.extents(raw.shape, raw.ndim),
                            "strides" => Ckpt.extents(raw.strides, raw.ndim), "offset" => raw.flat_offset), line)
end

command("reader.segment", 3; keys = nothing) do world, line
    found = Ckpt.segment(object(world, line.words[1]), line.words[2], parse(Int, line.words[3]) + 1)
    expect(Dict{String,Any}("part" => found.part, "codec" => found.codec, "filter" => found.filter,
                            "chunk_count" => found.chunk_count, "stored_bytes" => found.stored_bytes,
                            "box" => found.isflat ? nothing : region_text(found.offset, found.extent),
                            "flat" => found.isflat ? "$(found.flat_offset):$(found.flat_size)" : nothing), line)
end

command("reader.objects", -1) do world, line
    found = ["$(one.name):$(something(one.rank, "-"))" for one in Ckpt.objects(object(world, line.words[1]))]
    same(line.words[2:end], found)
end

command("reader.object", 3; keys = nothing) do world, line
    rank = line.words[3] == "-" ? 0 : parse(Int, line.words[3])
    found = Ckpt.object(object(world, line.words[1]), line.words[2]; rank)
    scope = found.scope === :SHARED ? "shared" : "per-rank"
    expect(Dict{String,Any}("scope" => scope, "rank" => something(found.rank, 0), "size" => found.size,
                            "media_type" => found.media_type), line)
end

command("reader.part", 2; keys = nothing) do world, line
    found = Ckpt.part(object(world, line.words[1]), parse(Int, line.words[2]))
    expect(Dict{String,Any}("name" => found.name, "rank" => found.rank), line)
end

command("reader.attrs", -1; keys = nothing) do world, line
    of = length(line.words) > 1 ? split_once(line.words[2], ':')[2] : nothing
    same(line.keys, Ckpt.attrs(object(world, line.words[1]); tensor = of))
end

command("reader.attr", 3; keys = ("tensor",)) do world, line
    found = Ckpt.attr(object(world, line.words[1]), line.words[2]; tensor = key(line, "tensor"))
    same([line.words[3]], [something(found, "")])
end

command("reader.map", 3; options = true) do world, line
    view = Ckpt.map_bytes(object(world, line.words[1]), line.words[2]; settings(line)...)
    keep!(() -> collect(view), world, line.words[3])
end

command("reader.verify", 2; options = true) do world, line
    keep!(() -> Ckpt.verify(object(world, line.words[1]); settings(line)...), world, line.words[2])
end

command("reader.diff", 3; options = true) do world, line
    one, other = object(world, line.words[1]), object(world, line.words[2])
    keep!(() -> diff(one, other; settings(line)...), world, line.words[3])
end

command("reader.tree", 2; keys = ("name",)) do world, line
    keep!(() -> Tree(object(world, line.words[1]); name = key(line, "name")), world, line.words[2])
end

command("reader.export", 2; options = true) do world, line
    Ckpt.export_checkpoint(object(world, line.words[1]), place(world, line.words[2]); settings(line)...)
end

# ---- loads ----

command("load.new", 2; options = true) do world, line
    keep!(() -> Load(object(world, line.words[2]); settings(line)...), world, line.words[1])
end

command("load.tensor", 5; keys = ("box", "flat", "strides", "device", "convert")) do world, line
    desc = region(line.words[3], line.words[4], line; convert = key(line, "convert", "0") == "1")
    add_tensor!(object(world, line.words[1]), line.words[2], desc, memory(world, line.words[5]); device = device(line))
end

command("load.tensors", 6; keys = ("box", "flat", "strides")) do world, line
    load, desc = object(world, line.words[1]), region(line.words[4], line.words[5], line)
    for i in 0:parse(Int, line.words[2])-1
        add_tensor!(load, "$(line.words[3])$i", desc, memory(world, line.words[6]))
    end
end

command("load.object", 4) do world, line
    rank = line.words[3] == "-" ? 0 : parse(Int, line.words[3])
    bytes = something(memory(world, line.words[4]), UInt8[])
    add_object!(object(world, line.words[1]), line.words[2], bytes; rank)
end

command("load.run", 1) do world, line
    run(object(world, line.words[1]))
end

command("load.start", 2) do world, line
    keep!(() -> start(object(world, line.words[1])), world, line.words[2])
end

command("load.report", 2) do world, line
    keep!(() -> Ckpt.report(object(world, line.words[1])), world, line.words[2])
end

# ---- files ----

command("file.open", 2; options = true) do world, line
    keep!(() -> Ckpt.File(place(world, line.words[2]); settings(line)...), world, line.words[1])
end

command("file.format", 2) do world, line
    same([line.words[2]], [Ckpt.format(object(world, line.words[1]))])
end

command("file.tensors", -1) do world, line
    same(line.words[2:end], [tensor.name for tensor in Ckpt.tensors(object(world, line.words[1]))])
end

command("file.tensor", 2; keys = nothing) do world, line
    found = Ckpt.tensor(object(world, line.words[1]), parse(Int, line.words[2]) + 1)
    expect(Dict{String,Any}("name" => found.name, "dtype" => found.dtype, "shape" => found.shape,
                            "strides" => found.strides, "bytes" => found.bytes, "data_bytes" => found.data_bytes,
                            "alias_of" => found.alias_of, "alias_offset" => found.alias_offset), line)
end

command("file.read", 3) do world, line
    index = parse(Int, line.words[2]) + 1
    keep!(() -> collect(Ckpt.map_bytes(object(world, line.words[1]), index)), world, line.words[3])
end

command("file.tree", 2) do world, line
    keep!(() -> Tree(object(world, line.words[1])), world, line.words[2])
end
