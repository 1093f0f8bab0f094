//! Records one after the other, as operators hand them on without writing them in between.
//!
//! ```text
//!   scanner ──► map ──► sorter (sink) ··· sorted stream ──► your loop ──► writer
//! ```
//!
//! 1. After the end a stream stays at its end; after a failure it fails again.

use crate::{ExternalError, Record, Store, Vector};

/// Records one after the other.
pub trait RecordStream {
    /// What they are.
    type Record: Record;

    /// The next one; `None` at the end.
    ///
    /// # Errors
    /// If the device fails or gives back other bytes than were written.
    fn next_record(&mut self) -> Result<Option<Self::Record>, ExternalError>;

    /// How many records it will still give, if that is known.
    fn left_count(&self) -> Option<u64> {
        None
    }

    /// The same with each record changed.
    fn map<R: Record, F: FnMut(Self::Record) -> R>(self, change: F) -> Mapped<Self, F>
    where
        Self: Sized,
    {
        Mapped { stream: self, change }
    }

    /// The same with a look at the next record.
    fn ahead(self) -> Ahead<Self>
    where
        Self: Sized,
    {
        Ahead { stream: self, next: None }
    }

    /// Writes all records to a vector.
    ///
    /// # Errors
    /// If there is no memory for a writer, no room, or the device fails.
    fn store_in(mut self, store: &Store) -> Result<Vector<Self::Record>, ExternalError>
    where
        Self: Sized,
    {
        let mut writer = Vector::writer_of(store, self.left_count().unwrap_or(0))?;
        while let Some(record) = self.next_record()? {
            writer.push(record)?;
        }
        writer.finish()
    }
}

/// A stream of changed records.
#[derive(Debug)]
pub struct Mapped<S, F> {
    stream: S,
    change: F,
}

impl<S: RecordStream, R: Record, F: FnMut(S::Record) -> R> RecordStream for Mapped<S, F> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        Ok(self.stream.next_record()?.map(&mut self.change))
    }

    fn left_count(&self) -> Option<u64> {
        self.stream.left_count()
    }
}

/// A stream of which one record can be looked at before it is taken.
#[derive(Debug)]
pub struct Ahead<S: RecordStream> {
    stream: S,
    /// What was looked at; the inner one is `None` at the end.
    next: Option<Option<S::Record>>,
}

impl<S: RecordStream> Ahead<S> {
    /// The record that comes next, which stays.
    ///
    /// # Errors
    /// As [`RecordStream::next_record`].
    #[inline]
    pub fn peek(&mut self) -> Result<Option<S::Record>, ExternalError> {
        if let Some(next) = self.next {
            return Ok(next);
        }
        let next = self.stream.next_record()?;
        self.next = Some(next);
        Ok(next)
    }

    /// The first record from here on for which `is_before` does not hold, which stays; those for
    /// which it does are passed over.
    ///
    /// # Errors
    /// As [`RecordStream::next_record`].
    pub fn skip_while(
        &mut self,
        is_before: impl Fn(&S::Record) -> bool,
    ) -> Result<Option<S::Record>, ExternalError> {
        while let Some(record) = self.peek()? {
            if !is_before(&record) {
                return Ok(Some(record));
            }
            self.next = None;
        }
        Ok(None)
    }
}

impl<S: RecordStream> RecordStream for Ahead<S> {
    type Record = S::Record;

    #[inline]
    fn next_record(&mut self) -> Result<Option<S::Record>, ExternalError> {
        match self.next.take() {
            // The end stays looked at.
            Some(None) => {
                self.next = Some(None);
                Ok(None)
            }
            Some(next) => Ok(next),
            None => self.stream.next_record(),
        }
    }

    fn left_count(&self) -> Option<u64> {
        let is_held = matches!(self.next, Some(Some(_)));
        self.stream.left_count().map(|count| count + u64::from(is_held))
    }
}
