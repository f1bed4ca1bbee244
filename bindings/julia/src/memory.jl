# From Julia arrays to C's descriptions of memory: shapes reversed, ranges from 0, strides where they are needed.

"""
    TensorDesc(dtype, shape; box, flat, strides, replica, first_replica, convert, offset)

Describes a piece of memory as the other languages do: **row-major order and offsets from 0**. Arrays do not need it;
it is for raw bytes, packed dtypes, and programs that already think in C order.

* `dtype`: a `DType`, its name or its code; `shape`: extents of the whole tensor
* `box = (offset, extent)` or `flat = (offset, size)`: the memory holds that box, or that range of the tensor
  flattened in row-major order; without either it holds the whole tensor
* `strides`: of the memory, in elements; without them the memory is row-major and contiguous
* `replica = (group, index, count)`: which ranks hold the same region (save only)
* `first_replica = true`: the values of the group's first member count, and those of the others may differ (save only)
* `convert = true`: converts between f32, bf16 and f16 if the dtypes differ (load only)
* `offset`: the first element in the flattened target, for a view that `add_alias!` takes
* `stream`: of memory on a CUDA device, the stream behind whose work it is copied, by DLPack's numbers
"""
struct TensorDesc
    raw::ckpt_tensor_desc
end

function TensorDesc(dtype, shape; box = nothing, flat = nothing, strides = nothing, replica = nothing,
                    first_replica = false, convert = false, offset = 0, stream = 0)
    isnothing(box) || isnothing(flat) || throw(ArgumentError("a region is a box or a flat range, not both"))
    ndim = length(shape)
    kind = isnothing(box) ? (isnothing(flat) ? CKPT_REGION_WHOLE : CKPT_REGION_FLAT) : CKPT_REGION_BOX
    flags = UInt32(isnothing(strides) ? 0 : CKPT_TENSOR_STRIDED) | UInt32(convert ? CKPT_TENSOR_CONVERT : 0) |
            UInt32(first_replica ? CKPT_TENSOR_FIRST_REPLICA : 0)
    box_offset, box_extent = something(box, ((), ()))
    flat_offset, flat_size = something(flat, (offset, 0))
    group, index, count = something(replica, (0, 0, 0))
    same = (isnothing(box) || length(box_offset) == length(box_extent) == ndim) &&
           (isnothing(strides) || length(strides) == ndim)
    same || throw(DimensionMismatch("the shape has $ndim dimensions, its box or strides have another number"))
    return TensorDesc(ckpt_tensor_desc(sizeof(ckpt_tensor_desc), DType(dtype).code, ndim, kind, flags, count, index, 0,
                                       group, sixteen(shape), sixteen(box_offset), sixteen(box_extent), flat_offset,
                                       flat_size, sixteen(something(strides, ())), stream))
end

sixteen(values) = ntuple(i -> i <= length(values) ? Int64(values[i]) : Int64(0), 16)

"The dtype of a description."
dtype(desc::TensorDesc) = DType(desc.raw.dtype)
"The shape of a description, in row-major order."
shape(desc::TensorDesc) = extents(desc.raw.shape, desc.raw.ndim)

# The description of an array. The keywords are those that add_tensor! documents.
function describe(array::AbstractArray{T,N}; dtype = nothing, whole = nothing, box = nothing, flat = nothing,
                  order = :reversed, replica = nothing, first_replica = false, convert = false) where {T,N}
    order in (:reversed, :same) || throw(ArgumentError("order is :reversed or :same, not :$order"))
    turn = order === :same ? identity : reverse
    steps = memory_strides(array)
    type = isnothing(dtype) ? dtype_of(T) : DType(dtype)
    bits(type) == 8 * sizeof(T) ||
        throw(ArgumentError("elements of $(nameof(type)) have $(bits(type)) bits, those of the array $(8 * sizeof(T))"))
    full = isnothing(whole) ? size(array) : Tuple(whole)
    plain = is_contiguous(size(array), steps) && (order === :reversed || N < 2)
    settings = (; replica, first_replica, convert)
    isnothing(flat) || return describe_flat(type, turn(full), array, flat, plain, settings)
    if isnothing(box)
        size(array) == full || throw(DimensionMismatch("the array is $(size(array)) and the tensor $full: give a box"))
        region = nothing
    else
        length(box) == length(full) == N && map(length, Tuple(box)) == size(array) ||
            throw(DimensionMismatch("box $(Tuple(box)) of a tensor $full is not the size of the array, $(size(array))"))
        region = (turn(map(range -> first(range) - 1, Tuple(box))), turn(size(array)))
    end
    return TensorDesc(type, turn(full); box = region, strides = plain ? nothing : turn(steps), settings...)
end

function describe_flat(type, shape, array, flat, plain, settings)
    plain || is_contiguous(size(array), memory_strides(array)) ||
        throw(ArgumentError("a flat range lies in contiguous memory"))
    length(flat) == length(array) ||
        throw(DimensionMismatch("the range has $(length(flat)) elements and the array $(length(array))"))
    return TensorDesc(type, shape; flat = (first(flat) - 1, length(flat)), settings...)
end

# Strides in elements. An array whose elements do not lie in strided memory is refused rather than copied.
function memory_strides(array::AbstractArray)
    isbitstype(eltype(array)) || throw(ArgumentError("elements of type $(eltype(array)) are not plain memory"))
    steps = try
        strides(array)
    catch
        throw(ArgumentError("a $(typeof(array)) has no strided memory: collect it first"))
    end
    all(step -> step >= 0, steps) || throw(ArgumentError("strides that go backwards are not taken: collect it first"))
    return steps
end

# Whether the memory is one piece in Julia's order; a dimension of one element has any stride.
function is_contiguous(extent, steps)
    expected = 1
    for (count, step) in zip(extent, steps)
        count == 1 || step == expected || count == 0 || return false
        expected *= count
    end
    return true
end

# Bytes from the first element to the end of the last one, gaps included.
function span_bytes(array::AbstractArray)
    isempty(array) && return UInt64(0)
    last = sum((count - 1) * step for (count, step) in zip(size(array), memory_strides(array)); init = 0)
    return UInt64(last + 1) * sizeof(eltype(array))
end

# Calls f(pointer, bytes) with the memory of an array, which lives meanwhile; with null if it is `nothing` or empty.
with_memory(f, ::Nothing) = f(C_NULL, UInt64(0))
function with_memory(f, array::AbstractArray)
    bytes = span_bytes(array)
    bytes == 0 && return f(C_NULL, bytes)
    return GC.@preserve array f(Ptr{Cvoid}(pointer(array)), bytes)
end

# Whether a load may write there.
is_writable(array::AbstractArray) = parent(array) === array || is_writable(parent(array))
is_writable(::Base.CodeUnits) = false
