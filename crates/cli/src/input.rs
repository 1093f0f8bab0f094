//! What rows come from: a file, or what stands in for one. A pipe into which nobody writes, or a terminal,
//! holds nobody up who presses Ctrl-C.
//!
//! 1. A file is read as it is. What may have to be waited for is asked first whether there is something,
//!    again and again, and in between the flag of the interrupt is.
//! 2. Opening a pipe waits for nobody at its other end.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Something that is read from front to back.
#[derive(Debug)]
pub(crate) struct Input {
    file: File,
    /// Bytes of a file; nobody knows how many come through a pipe.
    byte_count: Option<u64>,
    interrupt: Interrupt,
}

impl Input {
    /// Opens what the user named, or standard input for `-`, and says how it is called.
    pub(crate) fn named(path: &Path, interrupt: &Interrupt) -> Result<(Self, String), Failure> {
        let (opened, name) = match path == Path::new("-") {
            true => (Self::stdin(interrupt), "standard input".to_owned()),
            false => (Self::open(path, interrupt), path.display().to_string()),
        };
        match opened {
            Ok(input) => Ok((input, name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Failure::input(format!("{name}: no such file; check the spelling")))
            }
            Err(error) => Err(Failure::system(format!("cannot read {name}"), &error)),
        }
    }

    /// Opens what has this name.
    pub(crate) fn open(path: &Path, interrupt: &Interrupt) -> io::Result<Self> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        Self::of(OpenOptions::new().read(true).custom_flags(flags).open(path)?, interrupt)
    }

    /// Standard input, of which nobody else has read anything.
    pub(crate) fn stdin(interrupt: &Interrupt) -> io::Result<Self> {
        Self::of(File::from(io::stdin().as_fd().try_clone_to_owned()?), interrupt)
    }

    fn of(file: File, interrupt: &Interrupt) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let byte_count = metadata.is_file().then_some(metadata.len());
        Ok(Self { file, byte_count, interrupt: interrupt.clone() })
    }

    /// Bytes of a file.
    pub(crate) const fn byte_count(&self) -> Option<u64> {
        self.byte_count
    }

    /// Reads a file from this byte on.
    pub(crate) fn skip_to(&mut self, byte: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(byte)).map(drop)
    }
}

impl Read for Input {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.byte_count.is_none() {
                self.interrupt.wait(Some((&self.file, PollFlags::IN)), "wrote")?;
            }
            match self.file.read(target) {
                // Somebody else took what was there.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}
