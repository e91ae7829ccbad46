//! A disk for states that are not kept: what is written to it is gone.

use std::io;

use crate::embedded::{Disk, DiskFile};

/// Takes everything and keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nowhere;

impl Disk for Nowhere {
    type File = Self;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn create(&self, _: &str) -> io::Result<Self> {
        Ok(Self)
    }

    fn open(&self, _: &str) -> io::Result<Self> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl DiskFile for Nowhere {
    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<u64> {
        Ok(bytes)
    }

    fn read_start(&mut self, _: usize) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(0)
    }
}
