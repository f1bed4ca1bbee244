# Readers, loads and files.

command(call -> keep!(call, 1, Reader(object(call, 2), call.words[3]; settings(call)...)), "reader.open")
command(call -> info_record(Ckpt.info(object(call, 1))), "reader.info")
command(call -> keep!(call, 2, Ckpt.report(object(call, 1))), "reader.report")

tensor_names(call) = String[tensor.name for tensor in Ckpt.tensors(object(call, 1))]
command(tensor_names, "reader.tensors")
command(call -> record(Ckpt.tensor(object(call, 1), call.words[2])), "reader.tensor")

command("reader.alias") do call
    raw = Ckpt.alias(object(call, 1), call.words[2]).raw
    return Dict{String,Any}("dtype" => DType(raw.dtype), "shape" => Ckpt.extents(raw.shape, raw.ndim),
                            "strides" => Ckpt.extents(raw.strides, raw.ndim), "offset" => raw.flat_offset)
end

command("reader.segment") do call
    found = Ckpt.segment(object(call, 1), call.words[2], integer(call, 3) + 1)
    box = found.isflat ? nothing : region_text(found.offset, found.extent)
    return record(found; box, flat = found.isflat ? "$(found.flat_offset):$(found.flat_size)" : nothing)
end

command("reader.objects") do call
    return String["$(one.name):$(something(one.rank, "-"))" for one in Ckpt.objects(object(call, 1))]
end

command("reader.object") do call
    found = Ckpt.object(object(call, 1), call.words[2]; rank = integer(call, 3))
    return record(found; rank = something(found.rank, 0))
end

command(call -> record(Ckpt.part(object(call, 1), integer(call, 2))), "reader.part")

command("reader.attrs") do call
    found = Ckpt.attrs(object(call, 1); tensor = isempty(call.words[2]) ? nothing : call.words[2])
    return String["$key=$value" for (key, value) in found]
end

command("reader.attr") do call
    return String[something(Ckpt.attr(object(call, 1), call.words[2]; tensor = key(call, "tensor")), "")]
end

command("reader.map") do call
    keep!(call, 3, collect(Ckpt.map_bytes(object(call, 1), call.words[2]; settings(call)...)))
end

command(call -> keep!(call, 2, Ckpt.verify(object(call, 1); settings(call)...)), "reader.verify")
command("reader.copy") do call
    keep!(call, 3, Ckpt.copy_checkpoint(object(call, 1), object(call, 2); settings(call)...))
end
command(call -> keep!(call, 3, diff(object(call, 1), object(call, 2); settings(call)...)), "reader.diff")
command("reader.tree") do call
    rank = key(call, "rank")
    keep!(call, 2, Tree(object(call, 1); name = key(call, "name"), rank = isnothing(rank) ? nothing : parse(Int, rank)))
end
command(call -> Ckpt.export_checkpoint(object(call, 1), call.words[2]; settings(call)...), "reader.export")

# ---- loads ----

command(call -> keep!(call, 1, Load(object(call, 2); settings(call)...)), "load.new")

command("load.tensor") do call
    desc = region(call, 3; convert = key(call, "convert", "0") == "1")
    add_tensor!(object(call, 1), call.words[2], desc, memory(call, 5); device = device(call))
end

command(add_tensors, "load.tensors")

command("load.object") do call
    bytes = something(memory(call, 4), UInt8[])
    add_object!(object(call, 1), call.words[2], bytes; rank = integer(call, 3))
end

command(call -> run(object(call, 1)), "load.run")
command(call -> keep!(call, 2, start(object(call, 1))), "load.start")
command(call -> keep!(call, 2, Ckpt.report(object(call, 1))), "load.report")

# ---- files ----

command(call -> keep!(call, 1, Ckpt.File(call.words[2]; settings(call)...)), "file.open")
command(call -> String[Ckpt.format(object(call, 1))], "file.format")
command(tensor_names, "file.tensors")
command(call -> record(Ckpt.tensor(object(call, 1), integer(call, 2) + 1)), "file.tensor")
command(call -> keep!(call, 3, collect(Ckpt.map_bytes(object(call, 1), integer(call, 2) + 1))), "file.data")
command(call -> read_tensor!(object(call, 1), integer(call, 2) + 1, region(call, 3), memory(call, 5)), "file.read")
command(call -> keep!(call, 2, Tree(object(call, 1))), "file.tree")
