# Saves, jobs and reports.

pair_of(text) = split_once(text, ':')

function box_of(text)
    isnothing(text) && return nothing
    offset, extent = pair_of(text)
    return (parse_shape(offset), parse_shape(extent))
end

# DTYPE SHAPE and the keys of a region.
function region(dtype, shape, line; settings...)
    flat, strides, replica = key(line, "flat"), key(line, "strides"), key(line, "replica")
    return TensorDesc(parse_dtype(dtype), parse_shape(shape); box = box_of(key(line, "box")),
                      flat = isnothing(flat) ? nothing : Tuple(integers(flat, ':')),
                      strides = isnothing(strides) ? nothing : parse_shape(strides),
                      replica = isnothing(replica) ? nothing : Tuple(integers(replica, ':')), settings...)
end

device(line) = Tuple(integers(key(line, "device", "1:0"), ':'))

memory(world, name) = isempty(name) ? nothing : object(world, name)

command("save.new", 4; options = true) do world, line
    session, step = object(world, line.words[2]), parse(Int, line.words[4])
    keep!(() -> Save(session, line.words[3]; step, settings(line)...), world, line.words[1])
end

command("save.tensor", 5; keys = ("box", "flat", "strides", "replica", "device")) do world, line
    desc = region(line.words[3], line.words[4], line)
    add_tensor!(object(world, line.words[1]), line.words[2], desc, memory(world, line.words[5]); device = device(line))
end

command("save.tensors", 6; keys = ("box", "flat", "strides", "replica")) do world, line
    save, desc = object(world, line.words[1]), region(line.words[4], line.words[5], line)
    for i in 0:parse(Int, line.words[2])-1
        add_tensor!(save, "$(line.words[3])$i", desc, memory(world, line.words[6]))
    end
end

command("save.object", 5) do world, line
    scope = line.words[4] == "shared" ? :SHARED : :PER_RANK
    bytes = something(memory(world, line.words[5]), UInt8[])
    add_object!(object(world, line.words[1]), line.words[2], bytes; media_type = line.words[3], scope)
end

command("save.alias", 3; keys = ("shape", "strides", "offset")) do world, line
    save = object(world, line.words[1])
    shape, strides = key(line, "shape"), key(line, "strides")
    if isnothing(shape)
        add_alias!(save, line.words[2], line.words[3])
    else
        view = TensorDesc(DType(:u8), parse_shape(shape); offset = parse(Int, key(line, "offset", "0")),
                          strides = isnothing(strides) ? nothing : parse_shape(strides))
        add_alias!(save, line.words[2], line.words[3], view)
    end
end

command("save.attr", 3; keys = ("tensor",)) do world, line
    set_attr!(object(world, line.words[1]), line.words[2], line.words[3]; tensor = key(line, "tensor"))
end

command("save.tree", 2; keys = ("name",)) do world, line
    add_tree!(object(world, line.words[1]), object(world, line.words[2]); name = key(line, "name"))
end

command("save.id", 2) do world, line
    same([line.words[2]], [Ckpt.id(object(world, line.words[1]))])
end

command("save.run", 1) do world, line
    run(object(world, line.words[1]))
end

command("save.start", 2) do world, line
    keep!(() -> start(object(world, line.words[1])), world, line.words[2])
end

command("save.start_in_place", 2) do world, line
    keep!(() -> start(object(world, line.words[1]); in_place = true), world, line.words[2])
end

# ---- jobs ----

command("job.wait", 2; keys = ("timeout_ms",)) do world, line
    limit = key(line, "timeout_ms")
    wait(object(world, line.words[1]), Symbol(line.words[2]);
         timeout_ms = isnothing(limit) ? nothing : parse(Int, limit))
end

command("job.state", -1) do world, line
    found = string(Ckpt.state(object(world, line.words[1])))
    found in line.words[2:end] || fail("$(join(line.words[2:end], " or ")), found $found")
end

command("job.cancel", 1) do world, line
    cancel(object(world, line.words[1]))
end

command("job.stats", 1; keys = nothing) do world, line
    stats = Ckpt.stats(object(world, line.words[1]))
    found = Dict{String,Any}(string(name) => getfield(stats, name) for name in fieldnames(Ckpt.JobStats))
    found["io_engine"] = Ckpt.number_of(Ckpt.IO_ENGINES, stats.io_engine)
    expect(found, line)
end

command("job.report", 2) do world, line
    keep!(() -> Ckpt.report(object(world, line.words[1])), world, line.words[2])
end

# ---- reports ----

command("report", 2) do world, line
    found = length(object(world, line.words[1]))
    found == parse(Int, line.words[2]) || fail("$(line.words[2]) findings, found $found")
end

command("report.at", 2; keys = nothing) do world, line
    found = object(world, line.words[1])[parse(Int, line.words[2])+1]
    elements = something(found.elements, 0:-2)
    expect(Dict{String,Any}("kind" => found.kind, "status" => found.status, "name" => found.name, "part" => found.part,
                            "offset" => found.offset, "size" => found.size, "first_element" => first(elements) - 1,
                            "last_element" => isnothing(found.elements) ? -1 : last(elements) - 1,
                            "count" => found.count, "max_abs" => something(found.max_abs, NaN),
                            "max_rel" => something(found.max_rel, NaN)), line)
end
