# Library, memory, files, stores and sessions.

command("version", 0) do world, line
    number = Ckpt.version_number()
    version = Ckpt.version()
    number == version.major * 1_000_000 + version.minor * 1000 + version.patch || fail("$version, found $number")
    number >= Ckpt.CKPT_VERSION_MAJOR * 1_000_000 + Ckpt.CKPT_VERSION_MINOR * 1000 + Ckpt.CKPT_VERSION_PATCH ||
        fail("at least the version that api.jl is of, found $version")
end

command("status", 2) do world, line
    name, number = Symbol(line.words[1]), parse(Int32, line.words[2])
    name === :UNKNOWN || Ckpt.status_code(name) == number || fail("$number, found $(Ckpt.status_code(name))")
    Ckpt.status_name(number) === name || fail("$name, found $(Ckpt.status_name(number))")
end

command("dtype", 3) do world, line
    name, number, width = line.words[1], parse(Int32, line.words[2]), parse(Int, line.words[3])
    found = DType(number)
    nameof(found) == name || fail("$name, found $(nameof(found))")
    Ckpt.bits(found) == width || fail("$width bits, found $(Ckpt.bits(found))")
    name == "dtype" || DType(name).code == number || fail("$number, found $(DType(name).code)")
end

command("option", 1; keys = nothing) do world, line
    all = Ckpt.options()
    at = findfirst(option -> option.key == line.words[1], all)
    isnothing(at) && fail("an option called $(line.words[1])")
    found = all[at]
    expect(Dict{String,Any}("kind" => found.kind, "min" => found.min, "max" => found.max,
                            "fallback" => found.fallback, "choices" => found.choices, "used_by" => found.used_by), line)
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

from_hex(text) = UInt8[parse(UInt8, text[i:i+1]; base = 16) for i in 1:2:length(text)]

command("memory", 3) do world, line
    keep!(() -> generated(parse(Int, line.words[2]), parse(UInt64, line.words[3])), world, line.words[1])
end

command("memory.hex", 2) do world, line
    keep!(() -> from_hex(line.words[2]), world, line.words[1])
end

command("memory.part", 4) do world, line
    offset, bytes = parse(Int, line.words[3]), parse(Int, line.words[4])
    keep!(() -> object(world, line.words[2])[offset+1:offset+bytes], world, line.words[1])
end

command("equal", 2) do world, line
    one, other = object(world, line.words[1]), object(world, line.words[2])
    length(one) == length(other) || fail("$(length(one)) bytes, found $(length(other))")
    one == other && return nothing
    fail("equal bytes, found a difference at $(findfirst(i -> one[i] != other[i], 1:length(one)) - 1)")
end

command("differ", 2) do world, line
    object(world, line.words[1]) == object(world, line.words[2]) && fail("a difference, found none")
end

command("free", 1) do world, line
    free_object(object(world, line.words[1]))
    delete!(world.objects, line.words[1])
end

# ---- files ----

command("flip", 2) do world, line
    path, offset = place(world, line.words[1]), parse(Int, line.words[2])
    bytes = read(path)
    at = offset < 0 ? length(bytes) + offset : offset
    open(path, "r+") do file
        seek(file, at)
        write(file, xor(bytes[at+1], 0x01))
    end
end

command("truncate", 2) do world, line
    open(file -> truncate(file, parse(Int, line.words[2])), place(world, line.words[1]), "r+")
end

command("delete", 1) do world, line
    rm(place(world, line.words[1]))
end

command("copy", 2) do world, line
    cp(place(world, line.words[1]), place(world, line.words[2]); force = true)
end

# ---- stores ----

command("store.open", 2; options = true) do world, line
    keep!(() -> Store(line.words[2]; settings(line)...), world, line.words[1])
end

command("store.list", -1) do world, line
    store = object(world, line.words[1])
    found = [info.id for info in Ckpt.checkpoints(store) if info.state === :COMMITTED]
    same(line.words[2:end], found)
end

command("store.states", -1) do world, line
    store = object(world, line.words[1])
    same(line.words[2:end], ["$(info.id):$(info.state)" for info in Ckpt.checkpoints(store)])
end

command("store.find", 2; keys = nothing, options = true) do world, line
    store = object(world, line.words[1])
    expect_info(Ckpt.find_checkpoint(store, line.words[2]; settings(line)...), line)
end

command("store.remove", 2) do world, line
    Ckpt.remove_checkpoint(object(world, line.words[1]), line.words[2])
end

command("store.prune", 2; options = true) do world, line
    keep!(() -> Ckpt.prune(object(world, line.words[1]); settings(line)...), world, line.words[2])
end

command("store.repair", 3; options = true) do world, line
    keep!(() -> Ckpt.repair(object(world, line.words[1]), line.words[2]; settings(line)...), world, line.words[3])
end

command("store.import", 4; keys = nothing, options = true) do world, line
    store, path, step = object(world, line.words[1]), place(world, line.words[2]), parse(Int, line.words[4])
    expect_info(Ckpt.import_checkpoint(store, path, line.words[3]; step, settings(line)...), line)
end

# ---- sessions ----

function wait_for_file(path)
    for _ in 1:6000
        isfile(path) && return read(path, String)
        sleep(0.01)
    end
    fail("the file $path within 60 s")
end

command("session.open", 4; keys = ("string", "file"), options = true) do world, line
    store, rank, world_size = object(world, line.words[2]), parse(Int, line.words[3]), parse(Int, line.words[4])
    other, file = key(line, "string"), key(line, "file")
    text = isnothing(other) ? nothing : Ckpt.session_string(object(world, other))
    text = isnothing(file) ? text : wait_for_file(place(world, file))
    keep!(() -> Session(store; rank, world_size, string = text, settings(line)...), world, line.words[1])
end

command("session.string", 2) do world, line
    path = place(world, line.words[2])
    write(path * ".new", Ckpt.session_string(object(world, line.words[1])))
    mv(path * ".new", path; force = true)
end
