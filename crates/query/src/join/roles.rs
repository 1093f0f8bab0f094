//! What becomes of rows with and without partners, by the type of join and the side that was built.

use super::{JoinType, Side};
use crate::QueryError;

/// Which rows of one side come out by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    /// None comes out by itself.
    Never,
    /// Those with a partner, once each.
    Matched,
    /// Rows that found no partner.
    Unmatched,
}

/// What a join that builds one side and probes with the other hands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Whether rows that match come out as pairs.
    pub(crate) pairs: bool,
    /// Which rows of the built side come out by themselves, when all of the other side has been
    /// seen.
    pub(crate) build: Alone,
    /// Which rows of the probing side do.
    pub(crate) probe: Alone,
}

impl Roles {
    /// The roles if `built` is built.
    pub(crate) const fn of(join_type: JoinType, built: Side) -> Self {
        let (left, right) = match join_type {
            JoinType::Inner => (Alone::Never, Alone::Never),
            JoinType::Left => (Alone::Unmatched, Alone::Never),
            JoinType::Right => (Alone::Never, Alone::Unmatched),
            JoinType::Full => (Alone::Unmatched, Alone::Unmatched),
            JoinType::Semi => (Alone::Matched, Alone::Never),
            JoinType::Anti => (Alone::Unmatched, Alone::Never),
        };
        let pairs = !matches!(join_type, JoinType::Semi | JoinType::Anti);
        let (build, probe) = match built {
            Side::Left => (left, right),
            Side::Right => (right, left),
        };
        Self { pairs, build, probe }
    }

    /// Checks that no built row has to come out by itself: joins that look rows of the other side
    /// up, one after the other, never know of a row that nobody looked up.
    ///
    /// # Errors
    /// If one has to.
    pub(crate) fn check_probe_only(
        self,
        operator: &str,
        join_type: JoinType,
        outer: Side,
    ) -> Result<(), QueryError> {
        if self.build == Alone::Never {
            return Ok(());
        }
        let what = format!(
            "{operator} cannot do a {} join with the {} side outside; take the other side, or \
             another join",
            join_type.name(),
            outer.name()
        );
        Err(QueryError::Invalid { what })
    }

    /// Whether rows with a NULL in their key have to be kept when they are built.
    pub(crate) const fn keeps_null_keys(self) -> bool {
        matches!(self.build, Alone::Unmatched)
    }
}
