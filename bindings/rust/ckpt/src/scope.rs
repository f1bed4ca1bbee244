//! Scopes: background work on borrowed memory.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use crate::job::{Job, RawJob};

/// Where jobs on borrowed memory start; see [`scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    jobs: Mutex<Vec<Arc<RawJob>>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f`, in which saves and loads of borrowed memory may run in the background. Then blocks until the engine is
/// done with that memory: saves are staged, loads have ended. As with [`std::thread::scope`], the memory must be
/// borrowed outside, and forgetting a job cannot make the scope end early.
///
/// A save belongs to its session: dropping its job loses nothing. Dropping the job of a load cancels it. If `f` panics,
/// what still uses the memory is cancelled.
///
/// ```
/// # let store = ckpt::Store::open("mem:scope")?;
/// # let session = ckpt::Session::open(&store)?;
/// let mut weights = vec![1f32; 1000];
/// let mut save = ckpt::Save::new(&session, "step-1", Some(1))?;
/// save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
/// let job = ckpt::scope(|scope| {
///     let job = save.start_in(scope)?;
///     let loss: f32 = weights.iter().sum(); // reading goes on while the data is staged
///     assert_eq!(loss, 1000.0);
///     Ok::<_, ckpt::Error>(job)
/// })?;
/// weights[0] = 2.0; // staged: the memory may change, the checkpoint has the old value
/// job.wait_committed()?;
/// # Ok::<_, ckpt::Error>(())
/// ```
///
/// Memory that a save reads in a scope cannot be written there:
/// ```compile_fail,E0502
/// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
/// let mut weights = vec![1f32; 1000];
/// let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
/// save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
/// let job = ckpt::scope(|scope| {
///     let job = save.start_in(scope);
///     weights[0] = 2.0;
///     job
/// })?;
/// job.wait_committed()
/// # }
/// ```
/// but after the scope:
/// ```
/// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
/// let mut weights = vec![1f32; 1000];
/// let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
/// save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
/// let job = ckpt::scope(|scope| {
///     let job = save.start_in(scope);
///     job
/// })?;
/// weights[0] = 2.0;
/// job.wait_committed()
/// # }
/// ```
///
/// Nor can its lifetime end there:
/// ```compile_fail,E0597
/// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
/// ckpt::scope(|scope| {
///     let weights = vec![1f32; 1000];
///     let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
///     save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
///     std::mem::forget(save.start_in(scope)?);
///     Ok(())
/// })
/// # }
/// ```
/// but outside:
/// ```
/// # fn f(session: &ckpt::Session) -> ckpt::Result<()> {
/// let weights = vec![1f32; 1000];
/// ckpt::scope(|scope| {
///     let mut save = ckpt::Save::new(session, "step-1", Some(1))?;
///     save.add_tensor("w", &ckpt::TensorDesc::of::<f32>(&[1000]), &weights)?;
///     std::mem::forget(save.start_in(scope)?);
///     Ok(())
/// })
/// # }
/// ```
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { jobs: Mutex::new(Vec::new()), scope: PhantomData, env: PhantomData };
    // Also waits if `f` panics.
    let _waits = WaitsAtTheEnd(&scope.jobs);
    f(&scope)
}

impl Scope<'_, '_> {
    pub(crate) fn watch(&self, job: Job) -> Job {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // A scope may last as long as a training, so keep only jobs that it must wait for. Releasing the others cancels
        // nothing: a save is its session's, and the job of a load that somebody has, or forgot, is not freed.
        jobs.retain(|job| !job.is_quiet());
        jobs.push(Arc::clone(&job.raw));
        job
    }
}

struct WaitsAtTheEnd<'a>(&'a Mutex<Vec<Arc<RawJob>>>);

impl Drop for WaitsAtTheEnd<'_> {
    fn drop(&mut self) {
        for job in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if std::thread::panicking() && !job.is_quiet() {
                job.cancel();
            }
            job.wait_quiet();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Save, Session, Store, TensorDesc};

    #[test]
    fn a_scope_keeps_only_jobs_that_it_would_wait_for() {
        let store = Store::open("mem:scope-keeps").unwrap();
        let session = Session::open(&store).unwrap();
        let weights = [1f32; 4];
        let jobs = scope(|scope| {
            let jobs = ["a", "b", "c"].map(|label| {
                let mut save = Save::new(&session, label, None).unwrap();
                save.add_tensor("w", &TensorDesc::of::<f32>(&[4]), &weights).unwrap();
                let job = save.start_in(scope).unwrap();
                job.wait_staged().unwrap();
                job
            });
            assert_eq!(scope.jobs.lock().unwrap().len(), 1);
            jobs
        });
        jobs.iter().for_each(|job| job.wait_committed().unwrap());
    }
}
