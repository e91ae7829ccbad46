//! From calls that block to the driver's tasks: a small runtime of its own, which may be called from anywhere.

use std::{future::Future, sync::mpsc};

use quipu_storage::StorageError;
use tokio::runtime::{Builder, Runtime};

use crate::error::unanswered;

/// Threads for the driver: it waits for the network most of the time.
const THREADS: usize = 2;

#[derive(Debug)]
pub(crate) struct Bridge {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Bridge {
    pub(crate) fn new() -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("cassandra")
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Starts something that goes on by itself.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// Runs something and waits for it. (Not by `block_on`, which a caller that is itself a task may not use.)
    pub(crate) fn run<T, E>(&self, task: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.start(async move {
            // Nobody takes the result only if the caller's thread is gone.
            let _ = sender.send(task.await);
        });
        receiver.recv().unwrap_or_else(|_| Err(unanswered("asking the store", "the task panicked").into()))
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
