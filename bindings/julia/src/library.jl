# Which libckpt is called, and how the garbage collector can run during a long call.

# The SONAME, so that calls reach the library that __init__ opened, wherever its file is.
const libckpt = "libckpt.so.0"
const libckpt_files = "libckpt_files.so.0"  # ckpt_file.h

"""
Opens the library when the package is loaded: the file that `ENV["JULIA_CKPT_LIBRARY"]` names, or else the
`libckpt.so.0` that the system's loader finds. Its version must be that of `src/api.jl` or a compatible later one
(before 1.0: of the same minor version).
"""
function __init__()
    path = get(ENV, "JULIA_CKPT_LIBRARY", libckpt)
    library = Libdl.dlopen(path)
    Libdl.dlsym(library, :ckpt_version_number) == cglobal((:ckpt_version_number, libckpt)) ||
        error("$path has another SONAME than $libckpt, or a second libckpt is in this process")
    check_version(ckpt_version_number())
    # The one beside it; where that is missing, calls of ckpt_file.h take the one that the system's loader finds.
    Libdl.dlopen(joinpath(dirname(Libdl.dlpath(library)), libckpt_files); throw_error=false)
    return nothing
end

function check_version(number)
    major, minor = number ÷ 1_000_000, number ÷ 1000 % 1000
    oldest = CKPT_VERSION_MAJOR * 1_000_000 + CKPT_VERSION_MINOR * 1000 + CKPT_VERSION_PATCH
    compatible = number >= oldest && major == CKPT_VERSION_MAJOR && (major > 0 || minor == CKPT_VERSION_MINOR)
    compatible || error("libckpt $major.$minor.$(number % 1000) is loaded; this package needs " *
                        "$CKPT_VERSION_MAJOR.$CKPT_VERSION_MINOR.$CKPT_VERSION_PATCH or a compatible later one")
    return nothing
end

# A C call that waits must let the garbage collector run. Otherwise a rank that waits for another rank of the same
# process stops that one's collection, and neither goes on. Julia 1.12 has a keyword for it; for older versions the
# macro writes the same by hand, after the conversion of the arguments.
macro blocking(call)
    VERSION >= v"1.12" && return esc(:(@ccall gc_safe = true $call))
    return esc(gc_safe_by_hand(call))
end

# `call` is :(library.name(argument::Type, …)::Result).
function gc_safe_by_hand(call)
    signature, result = call.args
    roots, rooted, converted, passed = Symbol[], Expr[], Expr[], Expr[]
    for argument in signature.args[2:end]
        value, type = argument.args
        root, plain = gensym("root"), gensym("plain")
        push!(roots, root)
        push!(rooted, :($root = Base.cconvert($type, $value)))
        push!(converted, :($plain = Base.unsafe_convert($type, $root)))
        push!(passed, :($plain::$type))
    end
    inner = Expr(:(::), Expr(:call, signature.args[1], passed...), result)
    before, answer = gensym("before"), gensym("answer")
    return quote
        $(rooted...)
        GC.@preserve $(roots...) begin
            $(converted...)
            $before = @ccall jl_gc_safe_enter()::Int8
            $answer = @ccall $inner
            @ccall jl_gc_safe_leave($before::Int8)::Cvoid
            $answer
        end
    end
end

"The version of the library that is loaded."
version() = VersionNumber(unsafe_string(ckpt_version_string()))

"The same as one number: major * 1000000 + minor * 1000 + patch."
version_number() = Int(ckpt_version_number())
