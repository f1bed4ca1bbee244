//! Tensors that own their memory.

use crate::dtype::Dtype;

/// A whole tensor that was loaded by itself: dtype, shape and the bytes of its elements in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedTensor {
    /// The dtype of its elements.
    pub dtype: Dtype,
    /// Its shape in elements; empty for a scalar.
    pub shape: Vec<usize>,
    /// The elements, little-endian.
    pub data: Vec<u8>,
}
