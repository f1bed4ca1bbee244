# Handles: each frees its C object exactly once, and never while a call uses it.

# `state` is twice the number of uses under way, plus one once the handle is closed. No use begins after that; the last
# one to end frees the object. So any task may close the handle, and no use is under way when a finaliser runs.
mutable struct Handle{T}
    @atomic pointer::Ptr{T}
    @atomic state::Int
    function Handle(pointer::Ptr{T}) where {T}
        handle = new{T}(pointer, 0)
        finalizer(shut, handle)
        return handle
    end
end

"""
An object of the library: `Store`, `Session`, `Save`, `Reader`, `Load`, `Job`, `Tree`, `File`, `Keeper`. Any task may
close one, in any order and more than once; one that nobody closes is closed by the garbage collector. Use after
`close` throws an InvalidStateException. `open(Store, path) do store … end` closes it at the end.
"""
abstract type Resource end

Base.isopen(resource::Resource) = iseven(@atomic resource.handle.state)
Base.close(resource::Resource) = shut(resource.handle)
Base.open(::Type{T}, arguments...; settings...) where {T<:Resource} = T(arguments...; settings...)
Base.show(io::IO, resource::Resource) =
    print(io, nameof(typeof(resource)), isopen(resource) ? "(open)" : "(closed)")

function shut(handle::Handle)
    state = @atomic handle.state
    while iseven(state)
        state, done = @atomicreplace handle.state state => state + 1
        done && state == 0 && release(handle)
        done && return nothing
    end
    return nothing
end

function release(handle::Handle{T}) where {T}
    pointer = @atomicswap handle.pointer = Ptr{T}(C_NULL)
    pointer == C_NULL || free(pointer)
    return nothing
end

function enter(handle::Handle{T}) where {T}
    state = @atomic handle.state += 2
    iseven(state) && return nothing
    leave(handle)
    throw(InvalidStateException("this $(name_of_handle(T)) is closed", :closed))
end

function leave(handle::Handle)
    state = @atomic handle.state -= 2
    state == 1 && release(handle)
    return nothing
end

# For calls that need the object for themselves: a second task gets an error, instead of two calls that meet in C.
function enter_alone(handle::Handle{T}) where {T}
    state, done = @atomicreplace handle.state 0 => 2
    done && return nothing
    isodd(state) && throw(InvalidStateException("this $(name_of_handle(T)) is closed", :closed))
    throw(ConcurrencyViolationError("this $(name_of_handle(T)) is being used by another task"))
end

# Calls f(pointer), and the object lives meanwhile.
function use(f, handle::Handle)
    enter(handle)
    try
        return f(@atomic handle.pointer)
    finally
        leave(handle)
    end
end

# f(pointer, err) is a C call; call_alone is for one that needs the object for itself.
call(f, handle::Handle) = use(pointer -> checked(err -> f(pointer, err)), handle)

function call_alone(f, handle::Handle)
    enter_alone(handle)
    try
        return checked(err -> f((@atomic handle.pointer), err))
    finally
        leave(handle)
    end
end

# f(out, err) is a C call that makes an object.
function made(f, ::Type{T}) where {T}
    out = Ref{Ptr{T}}(C_NULL)
    checked(err -> f(out, err))
    return Handle(out[])
end

# A C struct of zeros with its struct_size set, as every call expects it.
function sized(::Type{T}) where {T}
    out = Ref{T}()
    GC.@preserve out begin
        start = Ptr{UInt8}(Base.unsafe_convert(Ptr{T}, out))
        for i in 1:sizeof(T)
            unsafe_store!(start, 0x00, i)
        end
        unsafe_store!(Ptr{UInt32}(start), sizeof(T))
    end
    return out
end

name_of_handle(::Type{T}) where {T} = replace(string(nameof(T)), "ckpt_" => "")

free(pointer::Ptr{ckpt_options}) = ckpt_options_free(pointer)
free(pointer::Ptr{ckpt_store}) = ckpt_store_free(pointer)
free(pointer::Ptr{ckpt_list}) = ckpt_list_free(pointer)
free(pointer::Ptr{ckpt_runs}) = ckpt_runs_free(pointer)
free(pointer::Ptr{ckpt_report}) = ckpt_report_free(pointer)
free(pointer::Ptr{ckpt_session}) = ckpt_session_free(pointer)
free(pointer::Ptr{ckpt_save}) = ckpt_save_free(pointer)
free(pointer::Ptr{ckpt_reader}) = ckpt_reader_free(pointer)
free(pointer::Ptr{ckpt_load}) = ckpt_load_free(pointer)
free(pointer::Ptr{ckpt_share}) = ckpt_share_free(pointer)
free(pointer::Ptr{ckpt_keeper}) = ckpt_keeper_free(pointer)
free(pointer::Ptr{ckpt_tree}) = ckpt_tree_free(pointer)
free(pointer::Ptr{ckpt_file}) = ckpt_file_free(pointer)
