# What the elements of a tensor are.

"""
    DType(name)      DType("bf16"), DType(:f32)
    DType(code)      DLPack's type code * 256 + bits of one element
    DType(T)         of a Julia type: DType(Float32)

The type of a tensor's elements. A code that the library has no name for is kept as it is.
"""
struct DType
    code::Int32
end

function DType(name::Union{AbstractString,Symbol})
    code = ckpt_dtype_find(string(name))
    code < 0 && throw(ArgumentError("no dtype is called $name"))
    return DType(code)
end
DType(dtype::DType) = dtype
DType(::Type{T}) where {T} = dtype_of(T)

"Bits of one element; 0 where the code cannot be a dtype."
bits(dtype::DType) = Int(ckpt_dtype_bits(dtype.code))
Base.nameof(dtype::DType) = unsafe_string(ckpt_dtype_name(dtype.code))
Base.show(io::IO, dtype::DType) = print(io, "DType(\"", nameof(dtype), "\")")

# In both directions; bf16 joins where BFloat16s.jl is loaded (ext/).
const ELEMENT_TYPES = Dict{Int32,DataType}(
    CKPT_DTYPE_I8 => Int8,
    CKPT_DTYPE_I16 => Int16,
    CKPT_DTYPE_I32 => Int32,
    CKPT_DTYPE_I64 => Int64,
    CKPT_DTYPE_U8 => UInt8,
    CKPT_DTYPE_U16 => UInt16,
    CKPT_DTYPE_U32 => UInt32,
    CKPT_DTYPE_U64 => UInt64,
    CKPT_DTYPE_F16 => Float16,
    CKPT_DTYPE_F32 => Float32,
    CKPT_DTYPE_F64 => Float64,
    CKPT_DTYPE_C32 => Complex{Float16},
    CKPT_DTYPE_C64 => Complex{Float32},
    CKPT_DTYPE_C128 => Complex{Float64},
    CKPT_DTYPE_BOOL => Bool,
)

"The dtype of a Julia type; an `ArgumentError` where there is none, as of Int128 or of a struct."
function dtype_of(::Type{T}) where {T}
    for (code, type) in ELEMENT_TYPES
        type === T && return DType(code)
    end
    throw(ArgumentError("$T is no dtype of a checkpoint; for raw bits give UInt8, UInt16, … and the keyword dtype"))
end

"The Julia type of a dtype, or `nothing` where there is none: float8, packed types, bf16 without BFloat16s.jl."
element_type(dtype::DType) = get(ELEMENT_TYPES, dtype.code, nothing)

# The unsigned integer that holds the bits of one element of a dtype that has no Julia type.
function bits_type(dtype::DType)
    for T in (UInt8, UInt16, UInt32, UInt64)
        8 * sizeof(T) == bits(dtype) && return T
    end
    throw(ArgumentError("elements of $(nameof(dtype)) have $(bits(dtype)) bits and no Julia type: " *
                        "load their bytes with a TensorDesc"))
end
