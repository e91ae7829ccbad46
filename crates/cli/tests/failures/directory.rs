//! Where clients find the sites that run, while these are killed and come back at other ports.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::harness::Running;

/// Where one site takes clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) resp: SocketAddr,
    pub(crate) http: SocketAddr,
}

#[derive(Debug, Default)]
pub(crate) struct Directory(Mutex<BTreeMap<u16, Addresses>>);

impl Directory {
    pub(crate) fn enter(&self, number: u16, running: &Running) {
        let addresses = Addresses { resp: running.resp, http: running.http };
        self.0.lock().expect("no client fails here").insert(number, addresses);
    }

    pub(crate) fn remove(&self, number: u16) {
        self.0.lock().expect("no client fails here").remove(&number);
    }

    /// `None` while it does not run.
    pub(crate) fn find(&self, number: u16) -> Option<Addresses> {
        self.0.lock().expect("no client fails here").get(&number).copied()
    }
}

/// Clients work until this is dropped, also by a failure: nobody waits for them for ever.
#[derive(Debug)]
pub(crate) struct Work<'a>(pub(crate) &'a AtomicBool);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
