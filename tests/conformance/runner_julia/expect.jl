# Expectations: KEY=VALUE against what was found.

show_shape(shape) = isempty(shape) ? "-" : join(shape, "x")
show_hex(bytes) = join(string(byte; base = 16, pad = 2) for byte in bytes)

# What a value may be spelled as; the first is for messages.
spellings(value::Union{Integer,AbstractString,Symbol}) = [string(value)]
spellings(value::Bool) = [value ? "1" : "0"]
spellings(::Nothing) = [""]
spellings(dtype::DType) = [nameof(dtype), string(dtype.code)]
spellings(shape::Vector{Int}) = [show_shape(shape)]
spellings(bytes::Vector{UInt8}) = [show_hex(bytes)]

spelled(value) = spellings(value)[1]
spelled(value::AbstractFloat) = value

matches(value, wanted) = wanted in spellings(value)
matches(value::AbstractFloat, wanted) = isequal(parse(Float64, wanted), value)

# `found` has a value for every key that the command may be asked about.
function expect(found, line::Line)
    for (key, wanted) in line.keys
        name = endswith(key, ">") ? key[1:end-1] : key
        haskey(found, name) || fail("a key that $(line.name) tells, found $name")
        value = found[name]
        if endswith(key, ">")
            value >= parse(Int, wanted) || fail("$name>=$wanted, found $value")
        else
            matches(value, wanted) || fail("$key=$wanted, found $(spelled(value))")
        end
    end
    return nothing
end

same(wanted, found) = wanted == found || fail("$(join(wanted, " ")), found $(join(found, " "))")

expect_info(info::Ckpt.CheckpointInfo, line::Line) =
    expect(Dict{String,Any}("id" => info.id, "label" => info.label, "run" => info.run,
                            "step" => something(info.step, -1), "world_size" => info.world_size,
                            "part_count" => info.part_count, "tensor_count" => info.tensor_count,
                            "object_count" => info.object_count, "state" => info.state,
                            "flags" => flag_bits(info.flags), "revision" => info.revision,
                            "attempt" => info.attempt, "token" => info.token, "sequence" => info.sequence,
                            "bytes" => info.bytes), line)

flag_bits(flags) = (:FOREIGN in flags ? 1 : 0) + (:REBUILT in flags ? 2 : 0)

# Where the bytes of a region lie, in the notation of scenarios.
region_text(offset, extent) = show_shape(offset) * ":" * show_shape(extent)
