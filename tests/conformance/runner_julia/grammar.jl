# Lines of a scenario: words, keys, options and what a call must fail with.

struct Line
    name::String
    words::Vector{String}
    keys::Vector{Pair{String,String}}
    options::Vector{Pair{Symbol,Any}}
    status::String                     # empty: must succeed
    facts::Vector{Pair{String,String}}
end

# What a command is: how many words come before its keys (any number where negative), the keys that it may have
# (`nothing`: expectations, which it looks up itself), whether it takes options, and what it does.
struct Command
    words::Int
    keys::Union{Tuple,Nothing}
    options::Bool
    run::Function
end

const COMMANDS = Dict{String,Command}()

command(run::Function, name::String, words::Int; keys = (), options = false) =
    (COMMANDS[name] = Command(words, keys, options, run))

# What a command cannot have is a mistake of the scenario.
function check_line(line)
    known = COMMANDS[line.name]
    known.words < 0 || length(line.words) == known.words || fail("$(known.words) words, found $(length(line.words))")
    known.options || isempty(line.options) || fail("no options, found @$(line.options[1].first)")
    isnothing(known.keys) && return nothing
    for (key, _) in line.keys
        key in known.keys || fail("a key of $(line.name), found $key")
    end
    return nothing
end

struct World
    dir::String
    variables::Dict{String,String}
    objects::Dict{String,Any}
end

# An expectation that does not hold: of the scenario, not of a call.
struct Unexpected <: Exception
    what::String
end

fail(what) = throw(Unexpected(what))

function split_once(text, divider)
    at = findfirst(divider, text)
    isnothing(at) && return (String(text), "")
    return (String(text[1:prevind(text, at)]), String(text[nextind(text, at):end]))
end

isname(char) = isascii(char) && (isletter(char) || isdigit(char) || char == '_')

# $NAME first, then %XX; a lone % is empty text, and a $ without a name is itself.
function decode(word, variables)
    word == "%" && return ""
    bytes, out, at = codeunits(expand(word, variables)), UInt8[], 1
    while at <= length(bytes)
        if bytes[at] == UInt8('%')
            push!(out, parse(UInt8, String(bytes[at+1:at+2]); base = 16))
            at += 3
        else
            push!(out, bytes[at])
            at += 1
        end
    end
    return String(out)
end

function expand(word, variables)
    pieces = split(word, '$')
    out = String(pieces[1])
    for piece in pieces[2:end]
        stop = something(findfirst(char -> !isname(char), piece), lastindex(piece) + 1)
        name = piece[1:prevind(piece, stop)]
        isempty(name) || haskey(variables, name) || fail("\$$name to be given")
        out *= (isempty(name) ? "\$" : variables[name]) * piece[stop:end]
    end
    return out
end

# Words up to a comment.
function words_of(source)
    words = String[]
    for word in split(source)
        startswith(word, "#") && break
        push!(words, String(word))
    end
    return words
end

function option_value(text)
    startswith(text, "\"") && return text[2:end]
    digits = startswith(text, "-") ? text[2:end] : text
    return !isempty(digits) && all(char -> '0' <= char <= '9', digits) ? parse(Int64, text) : text
end

function parse_line(words, variables)
    name = words[1]
    haskey(COMMANDS, name) || fail("a command, and $name is none that this runner knows")
    status, facts = "", Pair{String,String}[]
    arrow = findfirst(==("->"), words)
    if !isnothing(arrow)
        status = words[arrow+1]
        for fact in words[arrow+2:end]
            push!(facts, parse_fact(fact, variables))
        end
        words = words[1:arrow-1]
    end
    wanted = COMMANDS[name].words
    return sort_words(name, words[2:end], wanted < 0 ? typemax(Int) : wanted, variables, status, facts)
end

function parse_fact(fact, variables)
    key, value = split_once(fact, '=')
    contains, text = split_once(fact, '~')
    length(contains) < length(key) && return contains * "~" => decode(text, variables)
    return key => decode(value, variables)
end

function sort_words(name, given, wanted, variables, status, facts)
    words, pairs, options = String[], Pair{String,String}[], Pair{Symbol,Any}[]
    for word in given
        if startswith(word, "@")
            key, value = split_once(word[2:end], '=')
            push!(options, Symbol(key) => option_value(decode(value, variables)))
        elseif length(words) < wanted && (wanted < typemax(Int) || !occursin('=', word))
            push!(words, decode(word, variables))
        else
            key, value = split_once(word, '=')
            push!(pairs, decode(key, variables) => decode(value, variables))
        end
    end
    return Line(name, words, pairs, options, status, facts)
end

# ---- notation ----

key(line::Line, name, fallback = nothing) =
    (at = findfirst(pair -> pair.first == name, line.keys); isnothing(at) ? fallback : line.keys[at].second)

settings(line::Line) = (; line.options...)

object(world::World, name) = get(() -> fail("an object called $name"), world.objects, name)

# make() under a name; what had the name is freed, unless the call fails.
function keep!(make, world::World, name)
    made = make()
    haskey(world.objects, name) && free_object(world.objects[name])
    world.objects[name] = made
    return nothing
end

free_object(value::Ckpt.Resource) = close(value)
free_object(_) = nothing

place(world::World, file) = startswith(file, "/") ? file : joinpath(world.dir, file)

integers(text, divider) = isempty(text) ? Int[] : Int[parse(Int, part) for part in split(text, divider)]

parse_shape(text) = text == "-" ? Int[] : integers(text, 'x')

function parse_dtype(text)
    all(char -> '0' <= char <= '9', text) && return DType(parse(Int32, text))
    return DType(text)
end
