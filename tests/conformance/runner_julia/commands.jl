# Library, memory, files, stores and sessions.

command("version") do call
    number = Ckpt.version_number()
    version = Ckpt.version()
    number == version.major * 1_000_000 + version.minor * 1000 + version.patch || fail("$version, found $number")
    number >= Ckpt.CKPT_VERSION_MAJOR * 1_000_000 + Ckpt.CKPT_VERSION_MINOR * 1000 + Ckpt.CKPT_VERSION_PATCH ||
        fail("at least the version that api.jl is of, found $version")
end

command("status") do call
    name, number = Symbol(call.words[1]), parse(Int32, call.words[2])
    name === :UNKNOWN || Ckpt.status_code(name) == number || fail("$number, found $(Ckpt.status_code(name))")
    Ckpt.status_name(number) === name || fail("$name, found $(Ckpt.status_name(number))")
end

command("dtype") do call
    name, number, width = call.words[1], parse(Int32, call.words[2]), integer(call, 3)
    found = DType(number)
    nameof(found) == name || fail("$name, found $(nameof(found))")
    Ckpt.bits(found) == width || fail("$width bits, found $(Ckpt.bits(found))")
    name == "dtype" || DType(name).code == number || fail("$number, found $(DType(name).code)")
end

command("option") do call
    all = Ckpt.options()
    at = findfirst(option -> option.key == call.words[1], all)
    isnothing(at) && fail("an option called $(call.words[1])")
    expect(call, all[at])
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

command("equal") do call
    one, other = object(call, 1), object(call, 2)
    length(one) == length(other) || fail("$(length(one)) bytes, found $(length(other))")
    one == other && return nothing
    fail("equal bytes, found a difference at $(findfirst(i -> one[i] != other[i], 1:length(one)) - 1)")
end

command("differ") do call
    object(call, 1) == object(call, 2) && fail("a difference, found none")
end

command("free") do call
    free_object(object(call, 1))
    delete!(call.objects, call.words[1])
end

# ---- files ----

command("flip") do call
    path, offset = call.words[1], integer(call, 2)
    bytes = read(path)
    at = offset < 0 ? length(bytes) + offset : offset
    open(path, "r+") do file
        seek(file, at)
        write(file, xor(bytes[at+1], 0x01))
    end
end

command(call -> open(file -> truncate(file, integer(call, 2)), call.words[1], "r+"), "truncate")
command(call -> rm(call.words[1]), "delete")
command(call -> cp(call.words[1], call.words[2]; force = true), "copy")

# ---- stores ----

command(call -> keep!(call, 1, Store(call.words[2]; settings(call)...)), "store.open")

command("store.list") do call
    expect_words(call, 2, [info.id for info in Ckpt.checkpoints(object(call, 1)) if info.state === :COMMITTED])
end

command("store.states") do call
    expect_words(call, 2, ["$(info.id):$(info.state)" for info in Ckpt.checkpoints(object(call, 1))])
end

command("store.runs") do call
    texts = map(Ckpt.runs(object(call, 1))) do run
        id, label, step = something(run.newest_id, ""), something(run.newest_label, ""), something(run.newest_step, -1)
        "$(run.name):$(run.token):$(run.checkpoint_count):$step:$id:$label"
    end
    expect_words(call, 2, texts)
end

command("store.find") do call
    expect_info(call, Ckpt.find_checkpoint(object(call, 1), call.words[2]; settings(call)...))
end

command(call -> Ckpt.remove_checkpoint(object(call, 1), call.words[2]), "store.remove")
command(call -> keep!(call, 2, Ckpt.prune(object(call, 1); settings(call)...)), "store.prune")
command(call -> keep!(call, 3, Ckpt.repair(object(call, 1), call.words[2]; settings(call)...)), "store.repair")

command("store.import") do call
    path, label, step = call.words[2], call.words[3], integer(call, 4)
    expect_info(call, Ckpt.import_checkpoint(object(call, 1), path, label; step, settings(call)...))
end

# ---- sessions ----

function wait_for_file(path)
    for _ in 1:6000
        isfile(path) && return read(path, String)
        sleep(0.01)
    end
    fail("the file $path within 60 s")
end

command("session.open") do call
    store, rank, world_size = object(call, 2), integer(call, 3), integer(call, 4)
    other, file = key(call, "string"), key(call, "file")
    text = isnothing(other) ? nothing : Ckpt.session_string(named(call, other))
    text = isnothing(file) ? text : wait_for_file(file)
    keep!(call, 1, Session(store; rank, world_size, string = text, settings(call)...))
end

command(call -> keep!(call, 2, Ckpt.mirror(object(call, 1))), "session.mirror")

command("session.string") do call
    path = call.words[2]
    write(path * ".new", Ckpt.session_string(object(call, 1)))
    mv(path * ".new", path; force = true)
end
