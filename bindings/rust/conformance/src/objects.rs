//! The objects of a scenario by name, and how a command ends.

use std::any::{type_name, Any};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use ckpt::{Buffers, File, Job, JobState, Load, LoadJob, Options, Slot, Status, Tree, TreeRef};

use crate::call::{field, lossy, nothing, Call, Field, Reply};

/// What a call failed with: the library's error, or what C would return for what Rust's types refuse.
pub struct Failure {
    pub status: Status,
    pub message: String,
    details: Vec<(String, String)>,
}

impl Failure {
    /// The message and the details.
    pub fn fields(&self) -> Vec<Field> {
        let details = self.details.iter().map(|(key, value)| field(key, value));
        std::iter::once(field("message", &self.message)).chain(details).collect()
    }
}

pub enum Fail {
    Call(Failure),
    /// The scenario is wrong, or the result is.
    Wrong(String),
}

pub type Outcome<T = ()> = Result<T, Fail>;

pub fn wrong<T>(why: impl Into<String>) -> Outcome<T> {
    Err(Fail::Wrong(why.into()))
}

pub fn failed<T>(status: Status, message: &str, tensor: Option<&str>) -> Outcome<T> {
    let details = tensor.map(|name| ("tensor".to_owned(), name.to_owned())).into_iter().collect();
    Err(Fail::Call(Failure { status, message: message.to_owned(), details }))
}

/// Rust's types cannot express it; C returns INVALID.
pub fn refused<T>(message: &str, tensor: Option<&str>) -> Outcome<T> {
    failed(Status::INVALID, message, tensor)
}

impl From<ckpt::Error> for Fail {
    fn from(error: ckpt::Error) -> Self {
        let details = error.details().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Fail::Call(Failure { status: error.status(), message: error.message().to_owned(), details })
    }
}

/// Memory of the scenario: shared with saves, or moved into a load until the load gives it back.
pub enum Bytes {
    Here(Arc<Vec<u8>>),
    Lent,
}
pub type Memory = Rc<RefCell<Bytes>>;

/// Which memory is in which slot of a load.
pub type Lent = Vec<(Memory, Slot<u8>)>;

pub struct LoadObject {
    pub load: Load<'static>,
    pub lent: Lent,
}

impl Drop for LoadObject {
    fn drop(&mut self) {
        let buffers = self.load.take_buffers();
        give_back(buffers, &self.lent);
    }
}

pub enum JobObject {
    Other(Job),
    Load { job: Option<LoadJob>, lent: Lent },
}

impl JobObject {
    pub fn get(&self) -> &Job {
        match self {
            JobObject::Other(job) => job,
            JobObject::Load { job, .. } => job.as_ref().expect("only its drop takes it"),
        }
    }

    /// Gives memory back to the scenario if the job has ended.
    pub fn settle(&self) {
        if let JobObject::Load { job: Some(job), lent } = self {
            if let Some(buffers) = job.take_buffers() {
                give_back(buffers, lent);
            }
        }
    }
}

// A scenario that frees a job wants its end; dropping the job of a save does not end it.
impl Drop for JobObject {
    fn drop(&mut self) {
        if let JobObject::Other(job) = self {
            job.cancel();
            let _ = job.wait(JobState::COMMITTED);
        }
        if let JobObject::Load { job, lent } = self {
            if let Some(job) = job.take() {
                give_back(job.into_buffers(), lent);
            }
        }
    }
}

pub fn give_back(mut buffers: Buffers, lent: &Lent) {
    for (memory, slot) in lent {
        if let Some(bytes) = buffers.take(*slot) {
            *memory.borrow_mut() = Bytes::Here(Arc::new(bytes));
        }
    }
}

/// A read needs the file alone.
pub type FileObject = Rc<RefCell<File>>;

/// The tree of a file, which owns it.
pub struct FileTree(pub FileObject);

#[derive(Default)]
pub struct Runner {
    objects: HashMap<Vec<u8>, Box<dyn Any>>,
}

impl Runner {
    fn all<T: 'static>(&self) -> impl Iterator<Item = &T> {
        self.objects.values().filter_map(|object| object.downcast_ref())
    }

    /// The options of a call, and its job.
    pub fn settings(&self, call: &Call) -> Outcome<Options> {
        let options = call.settings()?;
        let job = call.key("job").map(|job| self.get_named::<JobObject>(job)).transpose()?;
        Ok(job.map_or(options.clone(), |job| options.job(job.get())))
    }

    pub fn get_named<T: 'static>(&self, name: &[u8]) -> Outcome<&T> {
        let found = self.objects.get(name).and_then(|object| object.downcast_ref());
        found.map_or_else(|| wrong(format!("expected a {} {}, found none", type_name::<T>(), lossy(name))), Ok)
    }

    /// The object that a word of the call names.
    pub fn get<T: 'static>(&self, call: &Call, index: usize) -> Outcome<&T> {
        self.get_named(&call.words[index])
    }

    pub fn put(&mut self, call: &Call, index: usize, object: impl Any) -> Outcome<Reply> {
        if let Some(old) = self.objects.insert(call.words[index].clone(), Box::new(object)) {
            self.drop_object(old);
        }
        nothing(())
    }

    pub fn put_memory(&mut self, call: &Call, index: usize, bytes: Vec<u8>) -> Outcome<Reply> {
        let memory: Memory = Rc::new(RefCell::new(Bytes::Here(Arc::new(bytes))));
        self.put(call, index, memory)
    }

    pub fn free(&mut self, name: &[u8]) -> Outcome {
        let gone =
            self.objects.remove(name).ok_or_else(|| Fail::Wrong(format!("expected {}, found none", lossy(name))))?;
        self.drop_object(gone);
        Ok(())
    }

    fn drop_object(&mut self, object: Box<dyn Any>) {
        if let Some(gone) = object.downcast_ref::<FileObject>() {
            let stays = |tree: &FileTree| !Rc::ptr_eq(&tree.0, gone);
            self.objects.retain(|_, other| other.downcast_ref().is_none_or(stays));
        }
    }

    /// A tree to read: the scenario's own, or that of a file.
    pub fn with_tree<T>(&self, call: &Call, index: usize, look: impl FnOnce(&TreeRef) -> Outcome<T>) -> Outcome<T> {
        match self.get::<FileTree>(call, index) {
            Ok(of) => look(of.0.borrow().tree()?),
            Err(_) => look(&self.get::<RefCell<Tree>>(call, index)?.borrow()),
        }
    }

    /// The bytes of a memory, as they are now.
    pub fn bytes(&self, call: &Call, index: usize) -> Outcome<Arc<Vec<u8>>> {
        self.bytes_named(&call.words[index])
    }

    pub fn bytes_named(&self, name: &[u8]) -> Outcome<Arc<Vec<u8>>> {
        let memory = self.get_named::<Memory>(name)?;
        self.all().for_each(JobObject::settle);
        if let Bytes::Here(bytes) = &*memory.borrow() {
            return Ok(Arc::clone(bytes));
        }
        // A load that has not run holds it.
        let held = self.all::<RefCell<LoadObject>>().find_map(|held| {
            let held = held.borrow();
            let (_, slot) = held.lent.iter().find(|(own, _)| Rc::ptr_eq(own, memory))?;
            held.load.memory(*slot).map(<[u8]>::to_vec)
        });
        held.map_or_else(|| wrong("expected memory, found that a load is writing into it"), |bytes| Ok(Arc::new(bytes)))
    }
}
