# Library, memory, stores and sessions.

command("version") do _
    version = Ckpt.version()
    header = Ckpt.CKPT_VERSION_MAJOR * 1_000_000 + Ckpt.CKPT_VERSION_MINOR * 1000 + Ckpt.CKPT_VERSION_PATCH
    return Dict("text" => string(version), "number" => Ckpt.version_number(), "header" => header)
end

# Julia's names of a number are symbols and texts; there are no constants.
command("status") do call
    number = parse(Int32, call.words[1])
    name = Ckpt.status_name(number)
    name === :UNKNOWN || Ckpt.status_code(name) == number || fail("$number, found $(Ckpt.status_code(name))")
    return Dict("name" => name, "constants" => name === :UNKNOWN ? "" : name)
end

command("dtype") do call
    found = DType(parse(Int32, call.words[1]))
    name = nameof(found)
    return Dict("name" => name, "bits" => Ckpt.bits(found), "found" => name == "dtype" ? -1 : DType(name).code,
                "constants" => name == "dtype" ? "" : name)
end

command("option") do call
    all = Ckpt.options()
    at = findfirst(option -> option.key == call.words[1], all)
    isnothing(at) && fail("an option called $(call.words[1])")
    return record(all[at])
end

# ---- memory ----

# The little-endian stream of splitmix64.
function generated(bytes, seed)
    words = zeros(UInt64, cld(bytes, 8))
    x = seed
    for i in 1:(seed == 0 ? 0 : length(words))
        x += 0x9E3779B97F4A7C15
        z = xor(x, x >> 30) * 0xBF58476D1CE4E5B9
        z = xor(z, z >> 27) * 0x94D049BB133111EB
        words[i] = htol(xor(z, z >> 31))
    end
    return collect(reinterpret(UInt8, words))[1:bytes]
end

bytes_of(text) = collect(codeunits(text))

command(call -> keep!(call, 1, generated(integer(call, 2), parse(UInt64, call.words[3]))), "memory")
command(call -> keep!(call, 1, bytes_of(call.words[2])), "memory.hex")

# A load of Julia's goes into an array of Julia's.
command(call -> keep!(call, 1, zeros(UInt8, integer(call, 2))), "memory.alloc")

command("memory.part") do call
    offset, bytes = integer(call, 3), integer(call, 4)
    keep!(call, 1, object(call, 2)[offset+1:offset+bytes])
end

command(call -> [object(call, 1) == object(call, 2) ? "1" : "0"], "same")

command("free") do call
    free_object(object(call, 1))
    delete!(call.objects, call.words[1])
end

# ---- stores ----

command(call -> keep!(call, 1, Store(call.words[2]; settings(call)...)), "store.open")

command("store.states") do call
    return String["$(info.id):$(info.state)" for info in Ckpt.checkpoints(object(call, 1))]
end

run_text(run) = join(Any[run.name, run.token, run.checkpoint_count, something(run.newest_step, -1),
                         something(run.newest_id, ""), something(run.newest_label, "")], ":")
command(call -> String[run_text(run) for run in Ckpt.runs(object(call, 1))], "store.runs")

command("store.find") do call
    return info_record(Ckpt.find_checkpoint(object(call, 1), call.words[2]; settings(call)...))
end

command(call -> Ckpt.remove_checkpoint(object(call, 1), call.words[2]), "store.remove")
command(call -> Ckpt.keep_checkpoint(object(call, 1), call.words[2], call.words[3] == "1"), "store.keep")
command("store.name") do call
    id = isempty(call.words[4]) ? nothing : call.words[4]
    Ckpt.name_checkpoint(object(call, 1), call.words[3], id; run = call.words[2])
end
command(call -> keep!(call, 2, Ckpt.prune(object(call, 1); settings(call)...)), "store.prune")
command(call -> keep!(call, 3, Ckpt.repair(object(call, 1), call.words[2]; settings(call)...)), "store.repair")

command("store.import") do call
    path, label, step = call.words[2], call.words[3], integer(call, 4)
    return info_record(Ckpt.import_checkpoint(object(call, 1), path, label; step, settings(call)...))
end

# ---- sessions ----

command("session.open") do call
    store, rank, world_size, string = object(call, 2), integer(call, 3), integer(call, 4), key(call, "string")
    keep!(call, 1, Session(store; rank, world_size, string, settings(call)...))
end

command(call -> keep!(call, 2, Ckpt.mirror(object(call, 1))), "session.mirror")
command(call -> [String(Ckpt.session_string(object(call, 1)))], "session.string")
