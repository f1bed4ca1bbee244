# What a failed call throws.

"""
A call of the library failed.

* `status`: `:CORRUPT`, `:NOT_FOUND`, …, or `:UNKNOWN` for a number that the library has no name for
* `code`: the number of the status
* `message`: one line that says what failed, where, what was expected and what was found
* `details`: the facts that the error has, such as `"path"`, `"part"`, `"tensor"`, `"rank"`, `"ranks"`, `"offset"`,
  `"expected"`, `"found"`, and of an answer of an object store `"bucket"`, `"key"`, `"http_status"`, `"s3_code"`,
  `"request_id"`. All are text, since offsets and checksums may be larger than `Int`
"""
struct CkptError <: Exception
    code::Int32
    status::Symbol
    message::String
    details::Dict{String,String}
end

# Copies the library's error and frees it; `handle` may be null.
function CkptError(code::Int32, handle::Ptr{ckpt_error})
    details = Dict{String,String}()
    value, index = Ref{Cstring}(C_NULL), 0
    while (key = ckpt_error_detail_at(handle, index, value)) != C_NULL
        details[unsafe_string(key)] = unsafe_string(value[])
        index += 1
    end
    message = unsafe_string(ckpt_error_message(handle))
    ckpt_error_free(handle)
    return CkptError(code, status_name(code), message, details)
end

"The name of a status by its number: `:CORRUPT` for 30; `:UNKNOWN` where the library has none."
status_name(code::Integer) = Symbol(unsafe_string(ckpt_status_name(code)))

"The number of a status by its name: 30 for `:CORRUPT`."
status_code(name::Symbol) = number_of(STATUSES, name)

function Base.showerror(io::IO, error::CkptError)
    print(io, "CkptError: ", error.status)
    error.status === :UNKNOWN && print(io, " (", error.code, ")")
    isempty(error.message) || print(io, ": ", error.message)
    facts = sort!(collect(error.details))
    isempty(facts) || print(io, " (", join(("$key: $value" for (key, value) in facts), ", "), ")")
    return nothing
end

# f(err) is a C call that returns a status.
function checked(f)
    err = Ref{Ptr{ckpt_error}}(C_NULL)
    status = f(err)
    status == CKPT_OK || throw(CkptError(status, err[]))
    return nothing
end

# A number without a name in `table` is returned as it is: a newer library may know more.
function name_of(table, number::Integer)
    for (name, known) in table
        known == number && return name
    end
    return Int(number)
end

# The flags that a number has.
names_of(table, flags) = [name for (name, bit) in table if flags & UInt32(bit) != 0]

function number_of(table, name::Symbol)
    for (known, number) in table
        known === name && return number
    end
    throw(ArgumentError(":$name is none of $(join((":$known" for (known, _) in table), ", "))"))
end
number_of(_, number::Integer) = Int32(number)
