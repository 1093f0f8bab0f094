//! Whose the media beside the data are. Each says so itself ([`propagation::claim`]), and is asked before
//! anything is changed.
//!
//! ```text
//!   making       beside the log        opening                        closing
//!   ──────       ──────────────        ───────                        ───────
//!   being made   log of run 1          in run r, r + 1 is next        closed in r
//!   made, run 1  after the settings    log of run r + 1               log closed in r
//!                                      in run r + 1 ─► is changed
//! ```
//!
//! 1. Before a run of the log begins, each medium says that it comes next; before anything of the run
//!    comes to the medium, that it is in it.
//! 2. A medium says that it was closed before the log does.
//! 3. So whatever is cut where, a medium and the log of its database are in the same run, or the log is
//!    in the one that is next to the medium; and beside a log that was closed the medium was, too. A
//!    medium of another moment, put back from a copy, is so only if it is of the same run: like a log
//!    that lost its end, that is no matter of this.
//! 4. A medium that says it is a database's is not taken for a new one.
//!
//! [`propagation::claim`]: crate::propagation

use crate::StorageError;
use crate::log::Master;
use crate::propagation::{Claim, ClaimedMedium, Media};

/// The media beside the data, with what they say.
#[derive(Default)]
pub(super) struct Owners {
    media: Vec<ClaimedMedium>,
    /// Where the data is.
    place: String,
}

/// What the log of a database says.
#[derive(Clone, Copy)]
pub(super) struct LogState {
    database: u64,
    run: u32,
    is_closed: bool,
    /// It lost a control block that may have been newer.
    is_doubtful: bool,
}

impl From<&Master> for LogState {
    fn from(log: &Master) -> Self {
        let (database, run) = (log.database_id, log.epoch());
        Self { database, run, is_closed: log.is_clean, is_doubtful: log.is_doubtful() }
    }
}

impl Owners {
    /// Looks what each medium says.
    pub(super) fn find(media: &Media) -> Result<Self, StorageError> {
        Ok(Self { media: media.claimed()?, place: media.data().name() })
    }

    /// Checks that no medium is a database's, so that another can be made.
    pub(super) fn check_free(&self) -> Result<(), StorageError> {
        for medium in &self.media {
            let told = medium.told();
            let of_whom = match medium.claim() {
                Some(claim) if claim.is_made => {
                    format!("belongs to the database in {}, as its `{}`", claim.place, claim.medium)
                }
                None if medium.is_damaged() => "says of itself what nobody understands".to_owned(),
                _ => continue,
            };
            let what = format!(
                "{told} {of_whom}; name another one, or if that database is gone, empty this one \
                 (another directory, a device that is formatted, chips whose first 4 erase blocks are \
                 erased)"
            );
            return Err(StorageError::InvalidSetting { what });
        }
        Ok(())
    }

    /// Checks that the media are those of the database with this log, each by its name, and of the moment
    /// of the log.
    pub(super) fn check(&self, log: impl Into<LogState>) -> Result<(), StorageError> {
        let log = log.into();
        self.media.iter().try_for_each(|medium| self.check_one(medium, log))
    }

    fn check_one(&self, medium: &ClaimedMedium, log: LogState) -> Result<(), StorageError> {
        let (told, name, place) = (medium.told(), medium.name(), &self.place);
        let another = |what: String| Err(StorageError::InvalidSetting { what });
        let Some(claim) = medium.claim() else {
            let says = match medium.is_damaged() {
                true => "says of itself what nobody understands",
                false => "does not say that it belongs to any database",
            };
            return another(format!("{told} {says}; name the `{name}` of the database in {place}"));
        };
        if claim.database != log.database {
            return another(format!(
                "{told} belongs to another database, that in {}, as its `{}`; name the `{name}` of the \
                 database in {place}",
                claim.place, claim.medium
            ));
        }
        if claim.medium != name {
            return another(format!(
                "{told} is the `{}` of the database in {place}, not its `{name}`; name each by its own",
                claim.medium
            ));
        }
        if is_of_moment(claim, log) {
            return Ok(());
        }
        let ended = |is_closed| if is_closed { ", closed" } else { "" };
        let what = format!(
            "it is of another moment than the database in {place}: it was changed last in run {}{}, and \
             the database in run {}{}; one of them was put back from a copy, so put back both from \
             copies of one moment",
            claim.run,
            ended(claim.is_closed),
            log.run,
            ended(log.is_closed),
        );
        Err(StorageError::Corrupt { place: told, what })
    }

    /// Says that a database with this number is being made, in the first run of its log.
    pub(super) fn say_making(&mut self, database: u64, run: u32) -> Result<(), StorageError> {
        self.say(|medium, place| Claim {
            database,
            medium: medium.name().to_owned(),
            place: place.to_owned(),
            run,
            next_run: run,
            is_made: false,
            is_closed: false,
        })
    }

    /// Says that there is such a database now.
    pub(super) fn say_made(&mut self) -> Result<(), StorageError> {
        self.say_again(|claim| claim.is_made = true)
    }

    /// Says that a run of the log is about to begin, behind `run`.
    pub(super) fn say_next(&mut self, run: u32, next_run: u32) -> Result<(), StorageError> {
        self.say_again(|claim| {
            claim.is_closed &= claim.run == run;
            (claim.run, claim.next_run, claim.is_made) = (run, next_run, true);
        })
    }

    /// Says that it has begun.
    pub(super) fn say_begun(&mut self) -> Result<(), StorageError> {
        self.say_again(|claim| (claim.run, claim.is_closed) = (claim.next_run, false))
    }

    /// Says that it is over, and that all is durable.
    pub(super) fn say_closed(&mut self) -> Result<(), StorageError> {
        self.say_again(|claim| claim.is_closed = true)
    }

    fn say_again(&mut self, change: impl Fn(&mut Claim)) -> Result<(), StorageError> {
        self.say(|medium, place| {
            let mut claim = medium.claim().expect("it was checked, or said so already").clone();
            place.clone_into(&mut claim.place);
            change(&mut claim);
            claim
        })
    }

    fn say(
        &mut self,
        claim_of: impl Fn(&ClaimedMedium, &str) -> Claim,
    ) -> Result<(), StorageError> {
        for medium in &mut self.media {
            let claim = claim_of(medium, &self.place);
            medium.say(claim)?;
        }
        Ok(())
    }
}

/// Rule 3. Of a log that lost its newer control block to damage nobody knows whether it went on.
fn is_of_moment(claim: &Claim, log: LogState) -> bool {
    let run = log.run;
    let went_on = log.is_doubtful && claim.run == run.saturating_add(1);
    match log.is_closed {
        true => claim.run == run && claim.is_closed,
        false => claim.run == run || claim.next_run == run || went_on,
    }
}

#[cfg(test)]
mod tests;
