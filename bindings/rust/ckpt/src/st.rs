//! The crate `safetensors`: its views saved, its files filled from checkpoints.

use std::borrow::Cow;

use safetensors::tensor::{Dtype as StDtype, TensorView};
use safetensors::{SafeTensors, View};

use crate::dtype::Dtype;
use crate::error::{Error, Result, Status};
use crate::owned::OwnedTensor;
use crate::save::Save;
use crate::tensor::TensorDesc;

impl TryFrom<StDtype> for Dtype {
    type Error = Error;

    fn try_from(dtype: StDtype) -> Result<Self> {
        Ok(match dtype {
            StDtype::BOOL => Dtype::BOOL,
            StDtype::F4 => Dtype::F4_E2M1FN,
            StDtype::F6_E2M3 => Dtype::F6_E2M3FN,
            StDtype::F6_E3M2 => Dtype::F6_E3M2FN,
            StDtype::U8 => Dtype::U8,
            StDtype::I8 => Dtype::I8,
            StDtype::F8_E5M2 => Dtype::F8_E5M2,
            StDtype::F8_E4M3 => Dtype::F8_E4M3FN,
            StDtype::F8_E8M0 => Dtype::F8_E8M0FNU,
            StDtype::I16 => Dtype::I16,
            StDtype::U16 => Dtype::U16,
            StDtype::F16 => Dtype::F16,
            StDtype::BF16 => Dtype::BF16,
            StDtype::I32 => Dtype::I32,
            StDtype::U32 => Dtype::U32,
            StDtype::F32 => Dtype::F32,
            StDtype::C64 => Dtype::C64,
            StDtype::F64 => Dtype::F64,
            StDtype::I64 => Dtype::I64,
            StDtype::U64 => Dtype::U64,
            other => return Err(Error::new(Status::UNSUPPORTED, format!("safetensors dtype {other:?}"))),
        })
    }
}

impl TryFrom<Dtype> for StDtype {
    type Error = Error;

    fn try_from(dtype: Dtype) -> Result<Self> {
        Ok(match dtype {
            Dtype::BOOL => StDtype::BOOL,
            Dtype::F4_E2M1FN => StDtype::F4,
            Dtype::F6_E2M3FN => StDtype::F6_E2M3,
            Dtype::F6_E3M2FN => StDtype::F6_E3M2,
            Dtype::U8 => StDtype::U8,
            Dtype::I8 => StDtype::I8,
            Dtype::F8_E5M2 => StDtype::F8_E5M2,
            Dtype::F8_E4M3FN => StDtype::F8_E4M3,
            Dtype::F8_E8M0FNU => StDtype::F8_E8M0,
            Dtype::I16 => StDtype::I16,
            Dtype::U16 => StDtype::U16,
            Dtype::F16 => StDtype::F16,
            Dtype::BF16 => StDtype::BF16,
            Dtype::I32 => StDtype::I32,
            Dtype::U32 => StDtype::U32,
            Dtype::F32 => StDtype::F32,
            Dtype::C64 => StDtype::C64,
            Dtype::F64 => StDtype::F64,
            Dtype::I64 => StDtype::I64,
            Dtype::U64 => StDtype::U64,
            other => return Err(Error::new(Status::UNSUPPORTED, format!("safetensors has no {other}"))),
        })
    }
}

impl<'a> Save<'a> {
    /// Adds a whole tensor that is a safetensors view. What the view lends is borrowed; what it makes is kept.
    pub fn add_view<V: View>(&mut self, name: &str, view: &'a V) -> Result<()> {
        let desc = TensorDesc::new(view.dtype().try_into()?, view.shape());
        match view.data() {
            Cow::Borrowed(data) => self.add_tensor(name, &desc, data),
            Cow::Owned(data) => self.add_tensor_shared(name, &desc, data),
        }
    }

    /// Adds all tensors of a safetensors file that is in memory, without a copy.
    pub fn add_safetensors(&mut self, file: &SafeTensors<'a>) -> Result<()> {
        for (name, view) in file.iter() {
            self.add_tensor(name, &TensorDesc::new(view.dtype().try_into()?, view.shape()), view.data())?;
        }
        Ok(())
    }
}

impl OwnedTensor {
    /// The tensor as the crate `safetensors` takes it, for `serialize`.
    pub fn as_view(&self) -> Result<TensorView<'_>> {
        TensorView::new(self.dtype.try_into()?, self.shape.clone(), &self.data)
            .map_err(|error| Error::new(Status::INVALID, error.to_string()))
    }
}
