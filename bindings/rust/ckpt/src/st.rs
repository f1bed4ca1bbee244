//! The crate `safetensors`: saves its views, and makes views of loaded tensors.

use std::borrow::Cow;

use safetensors::tensor::{Dtype as StDtype, TensorView};
use safetensors::{SafeTensors, View};

use crate::dtype::Dtype;
use crate::error::{Error, Result, Status};
use crate::owned::OwnedTensor;
use crate::save::Save;
use crate::tensor::TensorDesc;

/// Both conversions from one table: our name = the name in safetensors.
macro_rules! dtypes {
    ($($ours:ident = $theirs:ident;)*) => {
        impl TryFrom<StDtype> for Dtype {
            type Error = Error;

            fn try_from(dtype: StDtype) -> Result<Self> {
                Ok(match dtype {
                    $(StDtype::$theirs => Dtype::$ours,)*
                    other => return Err(Error::new(Status::UNSUPPORTED, format!("safetensors dtype {other:?}"))),
                })
            }
        }

        impl TryFrom<Dtype> for StDtype {
            type Error = Error;

            fn try_from(dtype: Dtype) -> Result<Self> {
                Ok(match dtype {
                    $(Dtype::$ours => StDtype::$theirs,)*
                    other => return Err(Error::new(Status::UNSUPPORTED, format!("safetensors has no {other}"))),
                })
            }
        }
    };
}
ckpt_sys::each_safetensors_dtype!(dtypes! {});

impl<'a> Save<'a> {
    /// Adds a safetensors view as a whole tensor. Borrows the data that the view lends, and keeps data that it makes.
    pub fn add_view<V: View>(&mut self, name: &str, view: &'a V) -> Result<()> {
        let desc = TensorDesc::new(view.dtype().try_into()?, view.shape());
        match view.data() {
            Cow::Borrowed(data) => self.add_tensor(name, &desc, data),
            Cow::Owned(data) => self.add_tensor_shared(name, &desc, data),
        }
    }

    /// Adds all tensors of a safetensors file in memory, without a copy.
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
