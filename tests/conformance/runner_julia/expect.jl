# Expectations: KEY=VALUE against what was found.

show_shape(shape) = join(shape, " ")
region_text(offset, extent) = show_shape(offset) * ":" * show_shape(extent)

# The valid spellings of a value; the first is for messages.
spellings(value::Union{Integer,AbstractString,Symbol}) = [string(value)]
spellings(value::Bool) = [value ? "1" : "0"]
spellings(::Nothing) = [""]
spellings(dtype::DType) = [nameof(dtype), string(dtype.code)]
spellings(shape::Vector{Int}) = [show_shape(shape)]
spellings(bytes::Vector{UInt8}) = [String(copy(bytes))]

spelled(value) = spellings(value)[1]
spelled(value::AbstractFloat) = value

matches(value, wanted) = wanted in spellings(value)
matches(value::AbstractFloat, wanted) = isequal(parse(Float64, wanted), value)

# Every key is in `others`, or a field of what was found.
function expect(call::Call, found, others = Dict{String,Any}())
    for (kind, key, wanted) in call.keys
        value = haskey(others, key) ? others[key] : getfield(found, Symbol(key))
        good = kind == ">" ? value >= parse(Int, wanted) : matches(value, wanted)
        good || fail("$key$kind$wanted, found $(spelled(value))")
    end
    return nothing
end

# The words from `first` on.
function expect_words(call::Call, first, found)
    wanted = call.words[first:end]
    wanted == found || fail("$(join(wanted, " ")), found $(join(found, " "))")
    return nothing
end

expect_info(call::Call, info::Ckpt.CheckpointInfo) =
    expect(call, info, Dict{String,Any}("step" => something(info.step, -1), "flags" => flag_bits(info.flags)))

flag_bits(flags) = sum(Int[bit for (name, bit) in Ckpt.CHECKPOINT_FLAGS if name in flags])
