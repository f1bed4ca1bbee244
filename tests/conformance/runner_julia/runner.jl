# The conformance runner over the public API of Ckpt.jl; tests/conformance/README.md says what it reads and prints.
#
#   julia --project=bindings/julia tests/conformance/runner_julia/runner.jl

module Conformance

using Ckpt
using Logging

Logging.disable_logging(Logging.Warn)  # stderr is for what fails

include("grammar.jl")
include("commands.jl")
include("commands_save.jl")
include("commands_read.jl")
include("commands_table.jl")
include("commands_tree.jl")
include("commands_keeper.jl")

# What Julia's own checks refuse, C refuses with INVALID; an index past the end with NOT_FOUND.
const REFUSED = Union{ArgumentError,BoundsError,DimensionMismatch,InexactError,InvalidStateException}

status_of(error::CkptError) = string(error.status)
status_of(::BoundsError) = "NOT_FOUND"
status_of(::REFUSED) = "INVALID"
status_of(_) = "-"
facts(error::CkptError) = merge(Dict{String,String}("message" => error.message), error.details)
facts(error::REFUSED) = Dict("message" => sprint(showerror, error))
facts(error::Unexpected) = [error.what]
facts(error) = [sprint(showerror, error)]

# (status, what the reply says)
function perform(call::Call)
    try
        haskey(COMMANDS, call.name) || fail("a command, found none")
        return "OK", COMMANDS[call.name](call)
    catch error
        return status_of(error), facts(error)
    end
end

function main()
    objects = Dict{String,Any}()
    for line in eachline(stdin)
        call, began = read_call(objects, line), time_ns()
        status, found = perform(call)
        println(call.name, " ", (time_ns() - began) / 1e9, " ", status, said(found))
        flush(stdout)
    end
    foreach(free_object, values(objects))
end

end

abspath(PROGRAM_FILE) == @__FILE__() && Conformance.main()
