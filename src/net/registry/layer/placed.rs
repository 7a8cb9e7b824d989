//! Errors of files that say which file it is: an archive is written from many into one.

use std::io::{self, Read, Write};

pub(super) fn in_temporary_folder(cause: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let way_out = "make room there, or name a folder on another volume with TMPDIR";
    io::Error::new(cause.kind(), format!("temporary folder {}: {cause}; {way_out}", folder.display()))
}

/// Reads or writes with errors that say where.
#[derive(Debug)]
pub(super) struct Placed<T, P> {
    pub inner: T,
    pub place: P,
}

impl<R: Read, P: Fn(io::Error) -> io::Error> Read for Placed<R, P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(&self.place)
    }
}

impl<W: Write, P: Fn(io::Error) -> io::Error> Write for Placed<W, P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(&self.place)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().map_err(&self.place)
    }
}
