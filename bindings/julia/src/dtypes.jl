# The types of a tensor's elements.

"""
    DType(name)      DType("bf16"), DType(:f32)
    DType(code)      DLPack's type code * 256 + bits of one element
    DType(T)         of a Julia type: DType(Float32)

The type of a tensor's elements. A code that the library does not know stays a valid `DType`.
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

"Bits of one element; 0 if the code cannot be a dtype."
bits(dtype::DType) = Int(ckpt_dtype_bits(dtype.code))
Base.nameof(dtype::DType) = unsafe_string(ckpt_dtype_name(dtype.code))
Base.show(io::IO, dtype::DType) = print(io, "DType(\"", nameof(dtype), "\")")

# Read in both directions; ext/ adds bf16 when BFloat16s.jl is loaded.
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

"The dtype of a Julia type. Throws ArgumentError for a type that has none, such as Int128 or a struct."
function dtype_of(::Type{T}) where {T}
    for (code, type) in ELEMENT_TYPES
        type === T && return DType(code)
    end
    throw(ArgumentError("$T has no dtype; for raw bits pass UInt8, UInt16, … and the keyword dtype"))
end

"The Julia type of a dtype; `nothing` for float8, packed types, and bf16 without BFloat16s.jl."
element_type(dtype::DType) = get(ELEMENT_TYPES, dtype.code, nothing)

# The unsigned integer type that holds the bits of one element.
function bits_type(dtype::DType)
    for T in (UInt8, UInt16, UInt32, UInt64)
        8 * sizeof(T) == bits(dtype) && return T
    end
    throw(ArgumentError("elements of $(nameof(dtype)) have $(bits(dtype)) bits and no Julia type: " *
                        "load their bytes with a TensorDesc"))
end
