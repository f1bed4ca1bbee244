//! Save and load training checkpoints.
//!
//! The ranks of a trainer save one checkpoint together; any number of ranks can load it. Every byte has a checksum, a
//! save is committed for all ranks or for none, and loading runs no code. This crate is the safe interface of libckpt,
//! which it finds by pkg-config.
//!
//! ```
#![doc = include_str!("../examples/readme.rs")]
//! ```
//!
//! # Where to begin
//!
//! A training loop needs a [`Checkpointer`]. Under it are [`Store`] → [`Session`] → [`Save`], and [`Store`] →
//! [`Reader`] → [`Load`]. Background work is a [`Job`]. Nested state is
//! a [`Value`] or a [`Tree`]; a table of rows by id is saved from [`Rows`] and loaded by a [`Share`]; another program's
//! file is a [`File`]. Names follow `ckpt.h`, which lists the options and statuses of each call.
//!
//! # Threads and ownership
//!
//! All handles are `Send` and `Sync`: several threads may call methods that take `&self` at once; `&mut self` needs the
//! object for itself. Drop objects in any order: each keeps alive what it was made from. This crate never copies tensor
//! data: it borrows, shares or holds it until the engine is done with it. No safe program can make the engine use
//! memory that has been freed, not even with [`std::mem::forget`].
//!
//! After `fork` a child may only drop objects; other calls return [`Status::FORKED`].
#![warn(missing_docs)]

#[cfg(not(all(unix, target_pointer_width = "64")))]
compile_error!("libckpt is for 64-bit Unix");

mod background;
mod buffer;
mod checkpointer;
mod dtype;
mod error;
mod file;
mod handle;
mod info;
mod job;
mod keeper;
mod load;
mod memory;
mod numbers;
mod options;
mod owned;
mod reader;
mod report;
mod rows;
mod save;
mod scope;
mod session;
mod share;
#[cfg(feature = "safetensors")]
mod st;
mod store;
mod table;
mod tensor;
mod tree;
mod value;
mod view;

pub use buffer::Buffer;
pub use checkpointer::{Checkpointer, Ranks, Restored};
pub use ckpt_sys as sys;
pub use dtype::{bytes_of, bytes_of_mut, AnyBits, Dtype, Element};
pub use error::{Error, Result, Status};
pub use file::{File, FileTensor};
pub use handle::Items;
pub use info::{AliasInfo, ObjectInfo, ObjectScope, PartInfo, SegmentInfo, SegmentRegion, TensorInfo};
pub use job::{IoEngine, Job, JobState, JobStats, LoadJob};
pub use keeper::{Keeper, Numbers, Todo, Votes};
pub use load::Load;
pub use memory::{Buffers, SharedMemory, Slot};
pub use options::{options, version, version_number, OptionInfo, OptionKind, OptionValue, Options};
pub use owned::OwnedTensor;
pub use reader::{Attrs, Reader};
pub use report::{Finding, FindingKind, Report};
pub use rows::{Id, RowMemory, Rows, TABLE_BUCKETS};
pub use save::Save;
pub use scope::{scope, Scope};
pub use session::Session;
pub use share::{RowsMut, Rowset, Share};
pub use store::{CheckpointInfo, CheckpointState, Checkpoints, Store};
pub use table::{ColumnInfo, TableInfo};
pub use tensor::{Device, DeviceKind, Region, TensorDesc, MAX_NDIM};
pub use tree::{Children, KeyRef, Node, NodeKind, NodeValue, Tree, TreeRef, PER_RANK_CLASS, TREE_MAX_DEPTH};
pub use value::{Key, Value};
pub use view::View;
