# Tensors that are read where they lie: in a mapped part, or in a file of PyTorch or safetensors.

"""
A tensor in mapped memory: a read-only array without a copy. It keeps its reader or file open, even after `close`, so
pruning keeps the checkpoint until the array is gone. If somebody truncates the mapped file, or the disk fails, the
process can end with SIGBUS; with `load_tensor` it cannot.
"""
struct MappedTensor{T,N} <: AbstractArray{T,N}
    pointer::Ptr{T}
    size::NTuple{N,Int}
    strides::NTuple{N,Int}
    held::Any
end

# Counts as a use of a handle as long as it lives.
mutable struct Use
    handle::Handle
    function Use(handle::Handle)
        enter(handle)
        held = new(handle)
        finalizer(done -> leave(done.handle), held)
        return held
    end
end

Base.size(tensor::MappedTensor) = tensor.size
Base.strides(tensor::MappedTensor) = tensor.strides
Base.elsize(::Type{<:MappedTensor{T}}) where {T} = sizeof(T)
Base.unsafe_convert(::Type{Ptr{T}}, tensor::MappedTensor{T}) where {T} = tensor.pointer
Base.IndexStyle(::Type{<:MappedTensor}) = IndexCartesian()
is_writable(::MappedTensor) = false

function Base.getindex(tensor::MappedTensor{T,N}, place::Vararg{Int,N}) where {T,N}
    checkbounds(Bool, tensor, place...) || throw(BoundsError(tensor, place))
    at = 1
    for d in 1:N
        at += (place[d] - 1) * tensor.strides[d]
    end
    return GC.@preserve tensor load_element(tensor.pointer, at)
end

# A Julia Bool must be the byte 0 or 1; a file may have others.
load_element(pointer::Ptr, at) = unsafe_load(pointer, at)
load_element(pointer::Ptr{Bool}, at) = unsafe_load(Ptr{UInt8}(pointer), at) != 0x00

# collect and Array(tensor) call it; memory in one piece is copied at once.
function Base.copyto!(target::Array{T}, tensor::MappedTensor{T}) where {T}
    length(target) >= length(tensor) || throw(BoundsError(target, length(tensor)))
    if T !== Bool && is_contiguous(tensor.size, tensor.strides)
        GC.@preserve target tensor unsafe_copyto!(pointer(target), tensor.pointer, length(tensor))
    else
        for (at, element) in enumerate(tensor)
            target[at] = element
        end
    end
    return target
end

# `shape` and `steps` are in C's order; the array has them reversed unless order is :same.
function mapped(dtype::DType, data::Ptr{Cvoid}, shape, steps, held, order, as_bits)
    order in (:reversed, :same) || throw(ArgumentError("order is :reversed or :same, not :$order"))
    turn = order === :same ? identity : reverse
    type = julia_type(dtype, as_bits)
    return MappedTensor{type,length(shape)}(Ptr{type}(data), Tuple(turn(shape)), Tuple(turn(steps)), held)
end

function row_major_strides(shape)
    steps = ones(Int, length(shape))
    for d in length(shape)-1:-1:1
        steps[d] = steps[d+1] * shape[d+1]
    end
    return steps
end

# The Julia type of the elements. Bits only if asked for, since one dtype must never be taken for another.
function julia_type(dtype::DType, as_bits)
    as_bits && return bits_type(dtype)
    type = element_type(dtype)
    isnothing(type) || return type
    throw(ArgumentError("$(nameof(dtype)) has no Julia type here (bf16 has one with BFloat16s.jl): " *
                        "bits = true returns its bits as unsigned integers"))
end
