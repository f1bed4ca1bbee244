# Reads the commands of a scenario from its tokens.

mutable struct Call
    objects::Dict{String,Any}           # of the scenario, by name
    at::String                          # FILE:LINE: COMMAND
    name::String
    timed::Bool
    words::Vector{String}
    keys::Vector{NTuple{3,String}}      # (kind, key, value)
    options::Vector{Pair{Symbol,Any}}
    status::String                      # the expected status
    details::Vector{NTuple{3,String}}   # (kind, key, value)
end

Call(objects) = Call(objects, "", "", false, String[], NTuple{3,String}[], Pair{Symbol,Any}[], "OK",
                      NTuple{3,String}[])

# Command name -> the function that carries out a call.
const COMMANDS = Dict{String,Function}()

command(run::Function, name::String) = (COMMANDS[name] = run)

# An expectation of the scenario that does not hold; not an error of a call.
struct Unexpected <: Exception
    what::String
end

fail(what) = throw(Unexpected(what))

function split_once(text, divider)
    at = findfirst(divider, text)
    isnothing(at) && return (String(text), "")
    return (String(text[1:prevind(text, at)]), String(text[nextind(text, at):end]))
end

# The kind and text of the token at a position, and the position of the next one.
function token(data, at)
    blank = at
    while data[blank] != UInt8(' ')
        blank += 1
    end
    size = parse(Int, String(data[at+1:blank-1]))
    return String(data[at:at]), String(data[blank+1:blank+size]), blank + size + 2
end

# Reads the tokens of the command at a position; returns the position of the next one.
function read_call!(call, data, at)
    while true
        kind, text, at = token(data, at)
        key, value = split_once(text, '=')
        kind == "." && return at
        kind == ":" && (call.at = text)
        kind in ("c", "t") && ((call.name, call.timed) = (text, kind == "t"))
        kind == "w" && push!(call.words, text)
        kind in ("=", ">") && key != "job" && push!(call.keys, (kind, key, value))
        kind == "=" && key == "job" && push!(call.options, :job => named(call, value))
        kind == "i" && push!(call.options, Symbol(key) => parse(Int64, value))
        kind == "s" && push!(call.options, Symbol(key) => value)
        kind == "!" && (call.status = text)
        kind in ("e", "~") && push!(call.details, (kind, key, value))
    end
end

# ---- notation ----

key(call::Call, name, fallback = nothing) =
    (at = findfirst(one -> one[2] == name, call.keys); isnothing(at) ? fallback : call.keys[at][3])

settings(call::Call) = (; call.options...)

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
