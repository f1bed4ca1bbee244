# Saves, jobs and reports.

# The tensor of DTYPE, SHAPE (the words from `first` on) and the keys of a region.
function region(call, first; settings...)
    box, flat = numbers(key(call, "box")), numbers(key(call, "flat"))
    strides, replica = numbers(key(call, "strides")), numbers(key(call, "replica"))
    half = isnothing(box) ? 0 : length(box) ÷ 2
    return TensorDesc(parse_dtype(call.words[first]), numbers(call.words[first+1]);
                      box = isnothing(box) ? nothing : (box[1:half], box[half+1:end]),
                      flat = isnothing(flat) ? nothing : Tuple(flat), strides,
                      replica = isnothing(replica) ? nothing : Tuple(replica),
                      first_replica = key(call, "first_replica", "0") == "1", settings...)
end

device(call) = Tuple(numbers(key(call, "device", "1:0")))

memory(call, word) = isempty(call.words[word]) ? nothing : object(call, word)

command("save.new") do call
    keep!(call, 1, Save(object(call, 2), call.words[3]; step = integer(call, 4), settings(call)...))
end

command("save.tensor") do call
    add_tensor!(object(call, 1), call.words[2], region(call, 3), memory(call, 5); device = device(call))
end

# save.tensors and load.tensors
function add_tensors(call)
    desc = region(call, 4)
    for i in 0:integer(call, 2)-1
        add_tensor!(object(call, 1), "$(call.words[3])$i", desc, memory(call, 6))
    end
end

command(add_tensors, "save.tensors")

command("save.object") do call
    scope = call.words[4] == "shared" ? :SHARED : :PER_RANK
    bytes = something(memory(call, 5), UInt8[])
    add_object!(object(call, 1), call.words[2], bytes; media_type = call.words[3], scope)
end

command("save.alias") do call
    save, name, target, shape = object(call, 1), call.words[2], call.words[3], numbers(key(call, "shape"))
    isnothing(shape) && return add_alias!(save, name, target)
    strides, offset = numbers(key(call, "strides")), parse(Int, key(call, "offset", "0"))
    add_alias!(save, name, target, TensorDesc(DType(:u8), shape; offset, strides))
end

command("save.attr") do call
    set_attr!(object(call, 1), call.words[2], call.words[3]; tensor = key(call, "tensor"))
end

command(call -> add_tree!(object(call, 1), object(call, 2); name = key(call, "name")), "save.tree")
command(call -> String[Ckpt.id(object(call, 1))], "save.id")
command(call -> run(object(call, 1)), "save.run")
command(call -> keep!(call, 2, start(object(call, 1))), "save.start")
command(call -> keep!(call, 2, start(object(call, 1); in_place = true)), "save.start_in_place")

command(call -> Ckpt.give_up(object(call, 1), call.words[2]), "save.give_up")

# ---- jobs ----

command(call -> keep!(call, 2, Ckpt.report(object(call, 1))), "save.report")

command(call -> keep!(call, 1, Ckpt.Job()), "job.new")

command("job.wait") do call
    limit = key(call, "timeout_ms")
    wait(object(call, 1), Symbol(call.words[2]); timeout_ms = isnothing(limit) ? nothing : parse(Int, limit))
end

command(call -> [string(Ckpt.state(object(call, 1)))], "job.state")
command(call -> cancel(object(call, 1)), "job.cancel")

command("job.stats") do call
    stats = Ckpt.stats(object(call, 1))
    return record(stats; io_engine = Ckpt.number_of(Ckpt.IO_ENGINES, stats.io_engine))
end

command(call -> keep!(call, 2, Ckpt.report(object(call, 1))), "job.report")

# ---- reports ----

command(call -> [string(length(object(call, 1)))], "report")

command("report.at") do call
    found = object(call, 1)[integer(call, 2)+1]
    elements = something(found.elements, 0:0)
    return record(found; first_element = first(elements) - 1, last_element = last(elements) - 1,
                  max_abs = something(found.max_abs, NaN), max_rel = something(found.max_rel, NaN))
end
