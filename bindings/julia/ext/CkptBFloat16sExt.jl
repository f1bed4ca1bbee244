# With BFloat16s.jl loaded, its BFloat16 is dtype bf16: in arrays that are saved, and in what load_tensor returns.
module CkptBFloat16sExt

import Ckpt
using BFloat16s: BFloat16

Ckpt.dtype_of(::Type{BFloat16}) = Ckpt.DType(Ckpt.CKPT_DTYPE_BF16)

__init__() = push!(Ckpt.ELEMENT_TYPES, Ckpt.CKPT_DTYPE_BF16 => BFloat16)

end
