//! Whether the files of a directory are of one moment. Whoever copies them one by one while somebody writes
//! has some of an earlier and some of a later one, each of them sound by itself.
//!
//! ```text
//!   nandu.lock   1234                      who holds it, or held it last
//!                file INODE BORN           which file it is itself; a copy of it is another one
//!                closed RUN LATEST SUM     when it was closed: by which run of the log, when the last of
//!                                          its files changed, and a sum over the times of all changes
//! ```
//!
//! 1. A directory whose lock is the file that it says it is was not copied, or by a file system as a whole.
//! 2. A copy of what was not closed is refused: nobody knows whether somebody wrote meanwhile.
//! 3. A copy of what was closed is of that moment if its log was closed by the run that the lock names, and
//!    each of its files was made after the last change, or all have the times of their changes.
//! 4. Where a file system does not say when a file was made, and where there is no lock, nothing is refused.

use super::handle::{DirectoryHandle, EntryName};
use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps, UTIME_NOW};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A lock's text is shorter.
const TEXT_BYTES_MAX: usize = 256;
/// How often a lock is given the present time until that is another than that of the last change: as often as
/// it takes for some hundredths of a second, where clocks of file systems go on.
const TOUCH_COUNT_MAX: u32 = 20_000;

/// Nanoseconds of a file system's clock.
type Time = i128;

/// What a lock says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LockText {
    /// The process that holds it, or held it last.
    pub(super) holder: Option<u32>,
    pub(super) moment: Moment,
}

/// What it says of the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// Which file it is, where that is known.
    file: Option<Identity>,
    /// How it was closed last; `None` while it is open and where that is not known.
    closed: Option<Closed>,
}

/// Which file a file is, as no other in its file system is or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    inode: u64,
    born: Time,
}

/// How a database was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Closed {
    run: u32,
    latest: Time,
    sum: u32,
}

/// What its files are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinship {
    /// It is no copy, as far as is known.
    Original,
    /// It is a copy, and its files are of one moment.
    Copy,
    /// It is a copy, and its files may be of several.
    Doubtful,
}

impl LockText {
    /// Reads what a lock says; whatever it does not say is not known.
    pub(super) fn read(lock: &File) -> Self {
        let mut bytes = [0; TEXT_BYTES_MAX];
        let count = lock.read_at(&mut bytes, 0).unwrap_or(0);
        Self::of(&String::from_utf8_lossy(&bytes[..count]))
    }

    fn of(text: &str) -> Self {
        let mut lines = text.lines();
        let holder = lines.next().and_then(|line| line.trim().parse().ok());
        let mut moment = Moment::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["file", inode, born] => {
                    let (inode, born) = (inode.parse(), born.parse());
                    moment.file =
                        inode.ok().zip(born.ok()).map(|(inode, born)| Identity { inode, born });
                }
                ["closed", run, latest, sum] => {
                    let (run, latest, sum) = (run.parse(), latest.parse(), sum.parse());
                    let all = run.ok().zip(latest.ok()).zip(sum.ok());
                    moment.closed = all.map(|((run, latest), sum)| Closed { run, latest, sum });
                }
                // Somebody else's, or the rest of a longer text.
                _ => {}
            }
        }
        Self { holder, moment }
    }

    /// Writes it in the place of what was there, which needs no room on a full file system.
    pub(super) fn write(&self, lock: &File) -> io::Result<()> {
        let Self { holder, moment: Moment { file, closed } } = self;
        let mut text = holder.map_or_else(String::new, |holder| holder.to_string()) + "\n";
        if let Some(Identity { inode, born }) = file {
            text += &format!("file {inode} {born}\n");
        }
        if let Some(Closed { run, latest, sum }) = closed {
            text += &format!("closed {run} {latest} {sum}\n");
        }
        assert!(text.len() <= TEXT_BYTES_MAX, "six numbers are short");
        lock.write_all_at(text.as_bytes(), 0)?;
        lock.set_len(text.len() as u64)
    }
}

impl Moment {
    /// That of an original which is open.
    pub(super) fn of_open(lock: &File) -> Self {
        Self { file: identity_of(lock), closed: None }
    }

    /// Whether both were said by one file.
    pub(super) fn is_of_same_file(self, other: Self) -> bool {
        self.file == other.file
    }

    /// That of an original which `run` of the log closed, the files `names` being all that it has. `None` if
    /// the file system does not say enough.
    pub(super) fn of_closed<'n>(
        lock: &File,
        handle: &DirectoryHandle,
        names: impl Iterator<Item = &'n dyn EntryName>,
        run: u32,
    ) -> Option<Self> {
        let file = identity_of(lock)?;
        let changes: Vec<Time> =
            names.map(|name| Some(changed(handle, name)?.0)).collect::<Option<_>>()?;
        let latest = changes.iter().copied().max()?;
        // Whoever begins a copy from now on makes files that are younger than the last change.
        let is_later = |times: Statx| time_of(times.stx_mtime) > latest;
        let is_over = (0..TOUCH_COUNT_MAX).any(|_| touch(lock).is_ok_and(is_later));
        let latest = if is_over { latest } else { latest - 1 };
        Some(Self { file: Some(file), closed: Some(Closed { run, latest, sum: sum_of(&changes) }) })
    }

    /// What the files `names` of a directory with this lock are to each other. `closed_by` is the run that
    /// closed its log, if it was closed.
    pub(super) fn kinship<'n>(
        self,
        lock: &File,
        handle: &DirectoryHandle,
        names: impl Iterator<Item = &'n dyn EntryName>,
        closed_by: Option<u32>,
    ) -> Kinship {
        match (self.file, identity_of(lock)) {
            (Some(said), Some(found)) if said != found => {}
            _ => return Kinship::Original,
        }
        let (Some(closed), Some(run)) = (self.closed, closed_by) else { return Kinship::Doubtful };
        let times: Option<Vec<_>> = names.map(|name| changed(handle, name)).collect();
        let Some(times) = times.filter(|_| closed.run == run) else { return Kinship::Doubtful };
        let changes: Vec<Time> = times.iter().map(|(changed, _)| *changed).collect();
        let are_young = times.iter().all(|(_, born)| *born > closed.latest);
        match are_young || sum_of(&changes) == closed.sum {
            true => Kinship::Copy,
            false => Kinship::Doubtful,
        }
    }
}

/// When an entry was changed, and when it was made; `None` if that is not known.
fn changed(handle: &DirectoryHandle, name: &dyn EntryName) -> Option<(Time, Time)> {
    let times = handle.times_of(name)?;
    Some((time_of(times.stx_mtime), time_of(times.stx_btime)))
}

fn identity_of(file: &File) -> Option<Identity> {
    let found = all_of(rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted()))?;
    Some(Identity { inode: found.stx_ino, born: time_of(found.stx_btime) })
}

/// Gives a file the present time, and looks at it.
fn touch(file: &File) -> rustix::io::Result<Statx> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now })?;
    rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted())
}

/// What is asked of a file system.
pub(super) fn wanted() -> StatxFlags {
    StatxFlags::INO | StatxFlags::MTIME | StatxFlags::BTIME
}

/// An answer that says all of it.
pub(super) fn all_of(answer: rustix::io::Result<Statx>) -> Option<Statx> {
    answer.ok().filter(|found| found.stx_mask & wanted().bits() == wanted().bits())
}

fn time_of(stamp: StatxTimestamp) -> Time {
    Time::from(stamp.tv_sec) * 1_000_000_000 + Time::from(stamp.tv_nsec)
}

fn sum_of(changes: &[Time]) -> u32 {
    changes.iter().fold(0, |sum, change| crc32c::crc32c_append(sum, &change.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_says_again_what_was_written_and_nothing_that_was_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let lock = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        let file = Some(Identity { inode: u64::MAX, born: Time::from(i64::MAX) * 1_000_000_000 });
        let closed = Some(Closed { run: u32::MAX, latest: -1, sum: 7 });
        for text in [
            LockText { holder: Some(u32::MAX), moment: Moment { file, closed } },
            LockText { holder: Some(1), moment: Moment { file, closed: None } },
            LockText { holder: None, moment: Moment { file: None, closed } },
            LockText::default(),
        ] {
            text.write(&lock).unwrap();
            assert_eq!(LockText::read(&lock), text);
        }
        for text in ["", "x\nfile 1\nclosed 1 2\n", "-1\nfile x y\nclosed 1 2 99999999999\nother\n"]
        {
            assert_eq!(LockText::of(text), LockText::default(), "{text}");
        }
        assert_eq!(LockText::of("12\n").holder, Some(12), "as earlier versions wrote it");
    }
}
