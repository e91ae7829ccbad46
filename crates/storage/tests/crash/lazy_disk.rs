//! A file layer that may be wrong in one way: it takes the second answer of a flush for the truth.

use std::io;

use quipu_storage::{
    embedded::{Disk, DiskFile},
    testing::sim_disk::{SimDisk, SimFile},
};

#[derive(Debug)]
pub(crate) struct Stubborn {
    disk: SimDisk,
    stubborn: bool,
}

#[derive(Debug)]
pub(crate) struct StubbornFile {
    file: SimFile,
    stubborn: bool,
}

impl Stubborn {
    pub(crate) fn new(disk: SimDisk, stubborn: bool) -> Self {
        Self { disk, stubborn }
    }
}

impl DiskFile for StubbornFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        match self.file.sync() {
            Err(_) if self.stubborn => self.file.sync(),
            result => result,
        }
    }
    fn reserve(&mut self, bytes: u64) -> io::Result<u64> {
        self.file.reserve(bytes)
    }
    fn read_start(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        self.file.read_start(bytes)
    }
    fn length(&mut self) -> io::Result<u64> {
        self.file.length()
    }
}

impl Disk for Stubborn {
    type File = StubbornFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<StubbornFile> {
        self.disk.create(name).map(|file| StubbornFile { file, stubborn: self.stubborn })
    }
    fn open(&self, name: &str) -> io::Result<StubbornFile> {
        self.disk.open(name).map(|file| StubbornFile { file, stubborn: self.stubborn })
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }
    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }
}
