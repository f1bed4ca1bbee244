# What commands work with: their words, keys and options, the objects of the scenario, and what they reply.

struct Call
    objects::Dict{String,Any}           # of the scenario, by name
    name::String
    words::Vector{String}
    keys::Dict{String,String}
    options::Vector{Pair{Symbol,Any}}
end

# Command name -> the function that carries out a call. A vector of texts is the words of the reply, a Dict its record;
# anything else says no more than that the call succeeded.
const COMMANDS = Dict{String,Function}()

command(run::Function, name::String) = (COMMANDS[name] = run)

# The command cannot be carried out; not an error of a call.
struct Unexpected <: Exception
    what::String
end

fail(what) = throw(Unexpected(what))

function split_once(text, divider)
    at = findfirst(divider, text)
    isnothing(at) && return (String(text), "")
    return (String(text[1:prevind(text, at)]), String(text[nextind(text, at):end]))
end

function unquoted(text)
    bytes, from, at = UInt8[], codeunits(text), 1
    while at <= length(from)
        quoted = from[at] == UInt8('%')
        push!(bytes, quoted ? parse(UInt8, String(from[at+1:at+2]); base = 16) : from[at])
        at += quoted ? 3 : 1
    end
    return String(bytes)
end

is_plain(byte) = byte in codeunits("-_./:,") || isletter(Char(byte)) && byte < 0x80 || isdigit(Char(byte))
quoted(text) = join(is_plain(byte) ? Char(byte) : "%" * string(byte; base = 16, pad = 2) for byte in codeunits(text))

# The call of a line.
function read_call(objects, line)
    name, fields... = split(line, ' ')
    call = Call(objects, name, String[], Dict{String,String}(), Pair{Symbol,Any}[])
    for field in fields
        sign = isempty(field) ? ' ' : field[1]
        key, value = sign in "=@\$" ? split_once(field[2:end], '=') : ("", field)
        text = unquoted(value)
        sign in "=@\$" || push!(call.words, text)
        sign == '=' && (call.keys[key] = text)
        sign == '@' && push!(call.options, Symbol(key) => parse(Int64, text))
        sign == '\$' && push!(call.options, Symbol(key) => text)
    end
    return call
end

# ---- notation ----

key(call::Call, name, fallback = nothing) = get(call.keys, name, fallback)

# The options of a call, and its job.
settings(call::Call) =
    haskey(call.keys, "job") ? (; call.options..., job = named(call, call.keys["job"])) : (; call.options...)

integer(call::Call, word) = parse(Int, call.words[word])

object(call::Call, word) = named(call, call.words[word])
named(call::Call, name) = get(() -> fail("an object called $name"), call.objects, name)

# Stores what a call made under the name in a word; frees what had that name.
function keep!(call::Call, word, made)
    name = call.words[word]
    haskey(call.objects, name) && free_object(call.objects[name])
    call.objects[name] = made
    return nothing
end

free_object(value::Ckpt.Resource) = close(value)
# A scenario that frees a job wants its end; closing the job of a save does not end it.
function free_object(job::Job)
    isopen(job) || return nothing
    cancel(job)
    isnothing(job.save) || Ckpt.until_ended(job.handle)
    close(job)
    return nothing
end
free_object(_) = nothing

# The numbers of a shape or a list; nothing if there is none.
numbers(text) = Int[parse(Int, number) for number in split(replace(text, ":" => " "))]
numbers(::Nothing) = nothing

function parse_dtype(text)
    all(char -> '0' <= char <= '9', text) && return DType(parse(Int32, text))
    return DType(text)
end

# ---- replies ----

show_shape(shape) = join(shape, " ")
region_text(offset, extent) = show_shape(offset) * ":" * show_shape(extent)

spelled(value) = string(value)
spelled(value::Bool) = value ? "1" : "0"
spelled(::Nothing) = ""
spelled(dtype::DType) = nameof(dtype) == "dtype" ? string(dtype.code) : nameof(dtype)
spelled(shape::Vector{Int}) = show_shape(shape)
spelled(bytes::Vector{UInt8}) = String(copy(bytes))

# All fields of what was found, and the others.
function record(found; others...)
    fields = Dict{String,Any}(String(name) => getfield(found, name) for name in fieldnames(typeof(found)))
    return merge(fields, Dict{String,Any}(String(name) => value for (name, value) in others))
end

info_record(info::Ckpt.CheckpointInfo) =
    record(info; step = something(info.step, -1), flags = flag_bits(info.flags))

flag_bits(flags) = sum(Int[bit for (name, bit) in Ckpt.CHECKPOINT_FLAGS if name in flags])

said(words::Vector{String}) = join(" " * quoted(word) for word in words)
said(record::Dict{String}) = join(" $key=$(quoted(spelled(value)))" for (key, value) in record)
said(_) = ""
