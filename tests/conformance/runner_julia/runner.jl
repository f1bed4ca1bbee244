# The conformance runner over the public API of Ckpt.jl; tests/conformance/README.md describes it.
#
#   julia --project=bindings/julia tests/conformance/runner_julia/runner.jl TOKENS
#   julia --project=bindings/julia tests/conformance/runner_julia/runner.jl --commands

module Conformance

using Ckpt
using Logging

Logging.disable_logging(Logging.Warn)  # stderr is for what fails

include("grammar.jl")
include("expect.jl")
include("commands.jl")
include("commands_save.jl")
include("commands_read.jl")
include("commands_table.jl")
include("commands_tree.jl")

# What Julia's own checks refuse, C refuses with INVALID; an index past the end with NOT_FOUND.
const REFUSED = Union{ArgumentError,BoundsError,DimensionMismatch,InexactError,InvalidStateException}

status_of(::Nothing) = "OK"
status_of(error::CkptError) = string(error.status)
status_of(::BoundsError) = "NOT_FOUND"
status_of(::REFUSED) = "INVALID"
message_of(::Nothing) = ""
message_of(error::CkptError) = error.message
message_of(error) = sprint(showerror, error)
details_of(error::CkptError) = error.details
details_of(_) = Dict{String,String}()

function check_outcome(call::Call, error)
    status_of(error) == call.status || fail("$(call.status), found $(status_of(error)): $(message_of(error))")
    for (kind, name, wanted) in call.details
        found = name == "message" ? message_of(error) : get(details_of(error), name, "")
        (kind == "e" ? found == wanted : occursin(wanted, found)) || fail("$name $kind \"$wanted\", found \"$found\"")
    end
    return nothing
end

function perform(call::Call)
    raised, began = nothing, time_ns()
    try
        COMMANDS[call.name](call)
    catch error
        error isa Union{CkptError,REFUSED} || rethrow()
        raised = error
    end
    call.timed && println((time_ns() - began) / 1e9, " ", call.name)
    check_outcome(call, raised)
    return nothing
end

function run_scenario(path)
    data, objects, count, at = read(path), Dict{String,Any}(), 0, 1
    while at <= length(data)
        call = Call(objects)
        at = read_call!(call, data, at)
        try
            perform(call)
        catch error
            what = error isa Unexpected ? "expected $(error.what)" : sprint(showerror, error)
            println(stderr, call.at, ": ", what)
            return 1
        end
        count += 1
    end
    foreach(free_object, values(objects))
    println("ok ", count)
    return 0
end

function main(arguments)
    if arguments == ["--commands"]
        foreach(println, sort(collect(keys(COMMANDS))))
        return 0
    end
    length(arguments) == 1 || (println(stderr, "usage: runner.jl TOKENS | --commands"); return 2)
    return run_scenario(arguments[1])
end

end

abspath(PROGRAM_FILE) == @__FILE__() && exit(Conformance.main(ARGS))
