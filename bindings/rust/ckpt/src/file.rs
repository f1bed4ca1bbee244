//! Other people's checkpoint files, opened in place.

use std::ffi::CStr;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use ckpt_sys as sys;

use crate::dtype::Dtype;
use crate::error::{check, Error, Result, Status};
use crate::handle::{c_path, lent, lent_or_none, sized, Handle, Items};
use crate::options::Options;
use crate::tensor::Dims;
use crate::tree::TreeRef;
use crate::view::View;

/// A PyTorch `.pt` or a safetensors file, mapped: no Python, no code run, nothing copied.
/// [`Store::import`](crate::Store::import) saves one into a store.
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
    /// is 0: then none are. Options: `verify` (1, the default: first checks the CRC-32 of every zip entry, which reads
    /// the whole file), `threads`, `tensor_data`, `map`, `map_at`, `map_back`, `config`, `only`, `exclude`, `cast`,
    /// `strict`, `endpoint`, `region`, `path_style`, `profile`, `ca_file`, `http_header`.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let (path, bag) = (c_path(path)?, options.bag()?);
        // SAFETY: text and options live until the call returns.
        let handle = Handle::make(|out, err| unsafe { sys::ckpt_file_open(out, path.as_ptr(), bag.get(), err) })?;
        Ok(File { handle, tree: OnceLock::new() })
    }

    /// `pt` (zip), `pt-legacy`, `safetensors` or `hfai`.
    #[must_use]
    pub fn format(&self) -> &'static str {
        // SAFETY: static text.
        unsafe { CStr::from_ptr(sys::ckpt_file_format(self.handle.get())) }.to_str().unwrap_or_default()
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
