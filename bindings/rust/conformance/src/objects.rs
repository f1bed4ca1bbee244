//! The objects of a scenario by name, and how a command ends.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use ckpt::{Buffers, File, Job, Load, LoadJob, Reader, Report, Save, Session, Slot, Status, Store, Tree, TreeRef};

/// What a call failed with: the library's error, or what C would say where Rust's types refuse.
pub struct Failure {
    pub status: Status,
    pub message: String,
    details: Vec<(String, String)>,
}

impl Failure {
    /// A detail or the message; empty where there is none.
    pub fn fact(&self, key: &str) -> &str {
        if key == "message" {
            return &self.message;
        }
        self.details.iter().find(|(own, _)| own == key).map_or("", |(_, value)| value)
    }
}

pub enum Fail {
    Call(Failure),
    /// The scenario is wrong, or what was found is.
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

/// Rust's types cannot say it; C says INVALID.
pub fn refused<T>(message: &str, tensor: Option<&str>) -> Outcome<T> {
    failed(Status::INVALID, message, tensor)
}

impl From<ckpt::Error> for Fail {
    fn from(error: ckpt::Error) -> Self {
        let details = error.details().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Fail::Call(Failure { status: error.status(), message: error.message().to_owned(), details })
    }
}

/// Memory of the scenario: shared with saves, or moved into a load until that gives it back.
pub enum Bytes {
    Here(Arc<Vec<u8>>),
    Lent,
}
pub type Memory = Rc<RefCell<Bytes>>;

/// Which memory went where in a load.
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

    /// Gives memory back to the scenario where the job has ended.
    pub fn settle(&self) {
        if let JobObject::Load { job: Some(job), lent } = self {
            if let Some(buffers) = job.take_buffers() {
                give_back(buffers, lent);
            }
        }
    }
}

impl Drop for JobObject {
    fn drop(&mut self) {
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

pub enum Object {
    Memory(Memory),
    Store(Store),
    Session(Session),
    Save(Save<'static>),
    Job(JobObject),
    Report(Report),
    Reader(Reader),
    Load(Box<LoadObject>),
    Tree(Tree),
    /// The tree of a file; it goes with the file.
    FileTree(Rc<File>),
    File(Rc<File>),
}

pub struct Runner {
    directory: PathBuf,
    variables: HashMap<String, String>,
    objects: HashMap<Vec<u8>, Object>,
}

/// Access to the objects of one kind.
macro_rules! kinds {
    ($($get:ident $get_mut:ident $kind:ident $type:ty, $what:literal;)*) => {
        impl Runner {$(
            #[allow(dead_code)]
            pub fn $get(&self, name: &[u8]) -> Outcome<&$type> {
                match self.objects.get(name) {
                    Some(Object::$kind(found)) => Ok(found),
                    _ => wrong(format!(concat!("expected ", $what, " {}, found none"), String::from_utf8_lossy(name))),
                }
            }

            #[allow(dead_code)]
            pub fn $get_mut(&mut self, name: &[u8]) -> Outcome<&mut $type> {
                match self.objects.get_mut(name) {
                    Some(Object::$kind(found)) => Ok(found),
                    _ => wrong(format!(concat!("expected ", $what, " {}, found none"), String::from_utf8_lossy(name))),
                }
            }
        )*}
    };
}
kinds! {
    memory memory_mut Memory Memory, "memory";
    store store_mut Store Store, "a store";
    session session_mut Session Session, "a session";
    save save_mut Save Save<'static>, "a save";
    job job_mut Job JobObject, "a job";
    report report_mut Report Report, "a report";
    reader reader_mut Reader Reader, "a reader";
    load load_mut Load LoadObject, "a load";
    tree tree_mut Tree Tree, "a tree";
    file file_mut File Rc<File>, "a file";
}

impl Runner {
    pub fn new(directory: &str, variables: &[String]) -> Result<Self, String> {
        let mut known = HashMap::from([("DIR".to_owned(), directory.to_owned())]);
        for given in variables {
            let pair = given.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, found '{given}'"))?;
            known.entry(pair.0.to_owned()).or_insert_with(|| pair.1.to_owned());
        }
        Ok(Runner { directory: directory.into(), variables: known, objects: HashMap::new() })
    }

    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A file of the scenario, relative to its folder unless it begins with `/`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    pub fn put(&mut self, name: &[u8], object: Object) {
        if let Some(old) = self.objects.insert(name.to_owned(), object) {
            self.drop_object(old);
        }
    }

    pub fn put_memory(&mut self, name: &[u8], bytes: Vec<u8>) {
        self.put(name, Object::Memory(Rc::new(RefCell::new(Bytes::Here(Arc::new(bytes))))));
    }

    pub fn free(&mut self, name: &[u8]) -> Outcome {
        match self.objects.remove(name) {
            Some(object) => self.drop_object(object),
            None => return wrong(format!("expected an object {}, found none", String::from_utf8_lossy(name))),
        }
        Ok(())
    }

    fn drop_object(&mut self, object: Object) {
        if let Object::File(gone) = &object {
            self.objects.retain(|_, other| !matches!(other, Object::FileTree(file) if Rc::ptr_eq(file, gone)));
        }
        drop(object);
    }

    /// A tree to read: the scenario's own, or that of a file.
    pub fn with_tree<T>(&self, name: &[u8], look: impl FnOnce(&TreeRef) -> Outcome<T>) -> Outcome<T> {
        match self.objects.get(name) {
            Some(Object::FileTree(file)) => look(file.tree()?),
            _ => look(self.tree(name)?),
        }
    }

    /// A save to change while a tree is looked at.
    pub fn with_save_and_tree(
        &mut self,
        save: &[u8],
        tree: &[u8],
        add: impl FnOnce(&mut Save<'static>, &TreeRef) -> Outcome,
    ) -> Outcome {
        self.save(save)?;
        let Some(Object::Save(mut taken)) = self.objects.remove(save) else { return wrong("expected a save") };
        let outcome = self.with_tree(tree, |tree| add(&mut taken, tree));
        self.objects.insert(save.to_owned(), Object::Save(taken));
        outcome
    }

    /// The bytes of a memory, as they are now.
    pub fn bytes(&self, name: &[u8]) -> Outcome<Arc<Vec<u8>>> {
        let memory = self.memory(name)?;
        for object in self.objects.values() {
            if let Object::Job(job) = object {
                job.settle();
            }
        }
        if let Bytes::Here(bytes) = &*memory.borrow() {
            return Ok(Arc::clone(bytes));
        }
        // A load that has not run has it.
        let held = self.objects.values().find_map(|object| match object {
            Object::Load(held) => {
                let (_, slot) = held.lent.iter().find(|(own, _)| Rc::ptr_eq(own, memory))?;
                held.load.memory(*slot).map(<[u8]>::to_vec)
            }
            _ => None,
        });
        held.map_or_else(|| wrong("expected memory, found that a load is writing into it"), |bytes| Ok(Arc::new(bytes)))
    }
}
