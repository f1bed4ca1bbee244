# The conformance runner over the public interface of Ckpt.jl; tests/conformance/README.md says what it must do.
#
#   julia --project=bindings/julia tests/conformance/runner_julia/runner.jl SCENARIO DIR [NAME=VALUE…]
#   julia --project=bindings/julia tests/conformance/runner_julia/runner.jl --commands

module Conformance

using Ckpt

include("grammar.jl")
include("expect.jl")
include("commands.jl")
include("commands_save.jl")
include("commands_read.jl")
include("commands_tree.jl")

# What Julia's own checks refuse is what C calls INVALID; a place beyond the end, NOT_FOUND.
const REFUSED = Union{ArgumentError,BoundsError,DimensionMismatch,InexactError,InvalidStateException}

status_of(error::CkptError) = string(error.status)
status_of(::BoundsError) = "NOT_FOUND"
status_of(::REFUSED) = "INVALID"
message_of(error::CkptError) = error.message
message_of(error) = sprint(showerror, error)
details_of(error::CkptError) = error.details
details_of(_) = Dict{String,String}()

function check_error(error, line::Line)
    status_of(error) == line.status ||
        fail("$(line.status), found $(status_of(error)): $(message_of(error))")
    for (key, value) in line.facts
        if endswith(key, "~")
            name = key[1:end-1]
            found = name == "message" ? message_of(error) : get(details_of(error), name, "")
            occursin(value, found) || fail("$name with \"$value\", found \"$found\"")
        else
            found = get(details_of(error), key, "")
            found == value || fail("$key=$value, found \"$found\"")
        end
    end
    return nothing
end

function perform(world::World, line::Line)
    raised = nothing
    try
        COMMANDS[line.name].run(world, line)
    catch error
        error isa Union{CkptError,REFUSED} || rethrow()
        isempty(line.status) && fail("success, found $(status_of(error)): $(message_of(error))")
        raised = error
    end
    isempty(line.status) && return nothing
    isnothing(raised) && fail("$(line.status), found success")
    check_error(raised, line)
    return nothing
end

function follow(world::World, words)
    timed = words[1] == "timed"
    line = parse_line(timed ? words[2:end] : words, world.variables)
    check_line(line)
    began = time_ns()
    perform(world, line)
    timed && println((time_ns() - began) / 1e9, " ", line.name)
    return nothing
end

function run_scenario(path, dir, variables)
    world = World(dir, merge(Dict("DIR" => dir), variables), Dict{String,Any}())
    count = 0
    for (number, source) in enumerate(eachline(path))
        words = words_of(source)
        isempty(words) && continue
        try
            follow(world, words)
        catch error
            what = error isa Unexpected ? "expected $(error.what)" : sprint(showerror, error)
            println(stderr, path, ":", number, ": ", words[1], ": ", what)
            return 1
        end
        count += 1
    end
    foreach(free_object, values(world.objects))
    println("ok ", count)
    return 0
end

function main(arguments)
    if arguments == ["--commands"]
        foreach(println, sort(push!(collect(keys(COMMANDS)), "timed")))
        return 0
    end
    length(arguments) >= 2 || (println(stderr, "usage: runner.jl SCENARIO DIR [NAME=VALUE…]"); return 2)
    variables = Dict{String,String}()
    for given in arguments[3:end]
        name, value = split_once(given, '=')
        variables[name] = value
    end
    return run_scenario(arguments[1], arguments[2], variables)
end

end

abspath(PROGRAM_FILE) == @__FILE__() && exit(Conformance.main(ARGS))
