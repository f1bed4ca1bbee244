//! Other people's checkpoint files, opened in place.

use std::ffi::CStr;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use ckpt_sys as sys;

use crate::dtype::{check_element, wrong_elements, AnyBits, Dtype};
use crate::error::{check, Error, Result, Status};
use crate::handle::{c_path, lent, lent_or_none, sized, Handle, Items};
use crate::memory::zeros;
use crate::options::Options;
use crate::owned::OwnedTensor;
use crate::tensor::{Dims, TensorDesc};
use crate::tree::TreeRef;
use crate::view::View;

/// Another program's checkpoint, opened in place: a PyTorch `.pt`, a safetensors file or set, a directory of DCP, or
/// another layout that [`Store::import`](crate::Store::import) takes. No Python, no code run, no converted copy.
///
/// A tensor in one piece can be looked at ([`FileTensor::data`]). One that is cut into several pieces, as those of DCP
/// are, has no address: [`read`](Self::read), [`read_vec`](Self::read_vec) and [`read_tensor`](Self::read_tensor) give
/// the elements of any.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("ckpt-doc-{}.safetensors", std::process::id()));
/// # let header = r#"{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}      "#;
/// # let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
/// # bytes.extend(header.as_bytes());
/// # (1..=4).for_each(|i| bytes.extend((i as f32).to_le_bytes()));
/// # std::fs::write(&path, bytes).unwrap();
/// use ckpt::{File, Options, Region, TensorDesc};
/// let mut file = File::open_with(&path, &Options::new().set("tensor_data", 0))?; // only what is read is fetched
/// assert_eq!(file.read_vec::<f32>(0)?, [1.0, 2.0, 3.0, 4.0]);
/// let mut column = [0f32; 2];
/// let second = TensorDesc::of::<f32>(&[2, 2]).region(Region::Box { offset: &[0, 1], extent: &[2, 1] });
/// file.read(0, &second, &mut column)?;
/// assert_eq!(column, [2.0, 4.0]);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<_, ckpt::Error>(())
/// ```
///
/// A read needs the file alone, so nothing may be borrowed from it meanwhile:
/// ```compile_fail,E0502
/// # fn f(file: &mut ckpt::File) -> ckpt::Result<()> {
/// for tensor in file.tensors() {
///     file.read_tensor(0)?;
/// }
/// # Ok(())
/// # }
/// ```
/// but
/// ```
/// # fn f(file: &mut ckpt::File) -> ckpt::Result<()> {
/// for _ in 0..file.tensors().len() {
///     file.read_tensor(0)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct File {
    handle: Handle<sys::ckpt_file>,
    /// Borrowed from the library at the first call; lives as long as the handle.
    tree: OnceLock<TreeRef>,
}

impl File {
    /// Maps the file and reads its structure, not its tensors. A pickle is turned into values and never executed; if it
    /// calls a function that ckpt does not know, the error is `UNSUPPORTED` and names the function.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        File::open_with(path, &Options::new())
    }

    /// Of an address (`https://host/model.pt`) the bytes of all tensors are fetched into memory, unless `tensor_data`
    /// is 0: then none are. Options: those used by `file`.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let (path, bag) = (c_path(path)?, options.bag()?);
        // SAFETY: text and options live until the call returns.
        let handle = Handle::make(|out, err| unsafe { sys::ckpt_file_open(out, path.as_ptr(), bag.get(), err) })?;
        Ok(File { handle, tree: OnceLock::new() })
    }

    /// `pt` (zip), `pt-legacy`, `safetensors`, `hfai`, `dcp` and so on, as `ckpt_file.h` lists them.
    #[must_use]
    pub fn format(&self) -> &'static str {
        // SAFETY: static text.
        unsafe { CStr::from_ptr(sys::ckpt_file_format(self.handle.get())) }.to_str().unwrap_or_default()
    }

    /// What is in the directory and was not read: `meta.pt`, or `runs/` of a directory.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            // SAFETY: the handle is alive; the text is copied at once.
            let name = unsafe { sys::ckpt_file_left_out(self.handle.get(), names.len() as u64) };
            if name.is_null() {
                return names;
            }
            // SAFETY: a text that ends with a NUL, borrowed from the file.
            names.push(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
        }
    }

    /// Tensors in the order of the tree; an alias comes after its target.
    pub fn tensors(&self) -> Items<'_, Self, Result<FileTensor<'_>>> {
        // SAFETY: the handle is alive.
        let count = unsafe { sys::ckpt_file_tensor_count(self.handle.get()) };
        Items::new(self, count, File::tensor)
    }

    /// One tensor by its position.
    pub fn tensor(&self, index: u64) -> Result<FileTensor<'_>> {
        let mut raw = sized!(ckpt_file_tensor);
        // SAFETY: `raw` is ours and has its size set; texts and data live as long as the file.
        unsafe {
            check(|err| sys::ckpt_file_tensor_at(self.handle.get(), index, &mut raw, err))?;
            Ok(FileTensor {
                shape: Dims::new(raw.ndim, &raw.shape),
                strides: Dims::new(raw.ndim, &raw.strides),
                data: View::new(raw.data.cast(), raw.data_bytes),
                name: lent(raw.name)?,
                alias_of: lent_or_none(raw.alias_of)?,
                raw,
            })
        }
    }

    /// Copies a region of tensor `index` into `data`, also where it has no address. Only what is wanted is read.
    ///
    /// `desc` says which region, as in [`Load::add_tensor`](crate::Load::add_tensor): its dtype and shape must be the
    /// tensor's (`MISMATCH`). `data` has the elements that `desc` says, or is bytes. `NOT_FOUND`: there is no such
    /// tensor; and the statuses of [`open`](Self::open).
    pub fn read<E: AnyBits>(&mut self, index: u64, desc: &TensorDesc, data: &mut [E]) -> Result<()> {
        check_element::<E>(desc.dtype())?;
        let raw = match desc.raw() {
            Ok(raw) => raw,
            Err(error) => return Err(error.with("tensor", self.tensor(index)?.name())),
        };
        // SAFETY: descriptor and memory live until the call returns; nobody else uses the file or the memory.
        check(|err| unsafe {
            let (to, bytes) = (data.as_mut_ptr().cast(), size_of_val(data) as u64);
            sys::ckpt_file_read(self.handle.get_mut(), index, raw, to, bytes, err)
        })
    }

    /// Reads one whole tensor of elements `E`. `MISMATCH` if it has others, `NOMEM` if it does not fit in memory.
    pub fn read_vec<E: AnyBits>(&mut self, index: u64) -> Result<Vec<E>> {
        let tensor = self.tensor(index)?;
        if tensor.dtype() != E::DTYPE {
            return Err(wrong_elements::<E>(tensor.name(), tensor.dtype()));
        }
        let desc = TensorDesc::new(tensor.dtype(), tensor.shape());
        let mut data = zeros(tensor.bytes() as usize / size_of::<E>()).map_err(|e| e.with("tensor", tensor.name()))?;
        self.read(index, &desc, &mut data)?;
        Ok(data)
    }

    /// Reads one whole tensor of any dtype. `NOMEM` as for [`read_vec`](Self::read_vec).
    pub fn read_tensor(&mut self, index: u64) -> Result<OwnedTensor> {
        let tensor = self.tensor(index)?;
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        let mut data = zeros::<u8>(tensor.bytes() as usize).map_err(|e| e.with("tensor", tensor.name()))?;
        self.read(index, &TensorDesc::new(dtype, &shape), &mut data)?;
        Ok(OwnedTensor { dtype, shape, data })
    }

    /// Everything in the file as a tree, with its tensors as leaves.
    pub fn tree(&self) -> Result<&TreeRef> {
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        let mut out = std::ptr::null();
        // SAFETY: the handle is alive; the tree lives as long as the file, which holds it.
        let tree = unsafe {
            check(|err| sys::ckpt_file_tree(self.handle.get(), &mut out, err))?;
            TreeRef::new(out).ok_or_else(|| Error::new(Status::INTERNAL, "the library gave no tree"))?
        };
        Ok(self.tree.get_or_init(|| tree))
    }
}

/// A tensor of a file; names and data are borrowed from the file.
#[derive(Clone, Copy)]
pub struct FileTensor<'a> {
    raw: sys::ckpt_file_tensor,
    shape: Dims,
    strides: Dims,
    data: View<'a>,
    name: &'a str,
    alias_of: Option<&'a str>,
}

impl<'a> FileTensor<'a> {
    /// Its path in the tree.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The dtype of its elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        Dtype(self.raw.dtype)
    }

    /// Its shape in elements.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.shape.get()
    }

    /// Its strides in elements.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        self.strides.get()
    }

    /// Bytes of the elements.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.raw.bytes
    }

    /// The bytes from the first element to the end of the last, with the gaps between strides; not always aligned.
    /// Empty if the tensor has no address, since it lies in several pieces or `tensor_data` is 0: see [`File::read`].
    #[must_use]
    pub fn data(&self) -> View<'a> {
        self.data
    }

    /// The tensor whose memory it shares, and its first element there.
    #[must_use]
    pub fn alias_of(&self) -> Option<(&'a str, u64)> {
        Some((self.alias_of?, self.raw.alias_offset.try_into().unwrap_or(0)))
    }
}

impl fmt::Debug for FileTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}{:?}", self.name, self.dtype(), self.shape())
    }
}
