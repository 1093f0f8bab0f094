//! What was done to the cells of members, flash or lines, added up.
//!
//! 1. Members without cells that are seen add nothing; an array of them alone has none.
//! 2. Commands and lines are counted from a beginning, of members that are gone, too; how often erase blocks
//!    were erased is of the members that there are, from their own beginning.

use nandu_base::{FlashCounters, WearSummary};
use nandu_device::{Counters, FlashUse, LineUse};

/// As in [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cells {
    commands: Option<FlashCounters>,
    wear: Option<WearSummary>,
    lines: Option<LineUse>,
}

/// Both, where there are two.
fn sum_of<T>(one: Option<T>, other: Option<T>, sum: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(sum(one, other)),
        (one, other) => one.or(other),
    }
}

impl Cells {
    /// Those of a member.
    pub(super) fn of(counters: &Counters) -> Self {
        Self {
            commands: counters.flash.map(|flash| flash.commands),
            wear: counters.flash.map(|flash| flash.wear),
            lines: counters.lines,
        }
    }

    /// This and those of another member.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            commands: sum_of(self.commands, other.commands, |one, other| one.with(&other)),
            wear: sum_of(self.wear, other.wear, |one, other| one.with(&other)),
            lines: sum_of(self.lines, other.lines, |one, other| one.with(&other)),
        }
    }

    /// What came since `before`, a reading of the same members.
    pub(super) fn since(self, before: &Self) -> Self {
        let none = FlashCounters::default();
        let earlier = before.commands.as_ref().unwrap_or(&none);
        let earlier_lines = before.lines.map_or(0, |lines| lines.write_count);
        Self {
            commands: self.commands.map(|commands| commands.since(earlier)),
            wear: self.wear,
            lines: self
                .lines
                .map(|lines| LineUse { write_count: lines.write_count - earlier_lines, ..lines }),
        }
    }

    /// The same of members that are no longer there.
    pub(super) const fn gone(self) -> Self {
        Self { wear: None, ..self }
    }

    /// As counters have it.
    pub(super) fn tell(self, counters: Counters) -> Counters {
        let flash = self
            .commands
            .map(|commands| FlashUse { commands, wear: self.wear.unwrap_or_default() });
        Counters { flash, lines: self.lines, ..counters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{Cause, FlashOperation};

    fn of_flash(programs: u64) -> Cells {
        let mut flash = FlashUse::default();
        flash.commands.add(FlashOperation::Program, Cause::Host, programs);
        flash.wear.erase_count_sum = programs;
        Cells::of(&Counters { flash: Some(flash), ..Counters::default() })
    }

    #[test]
    fn cells_of_members_add_up_and_count_from_a_beginning() {
        let told = |cells: Cells| {
            let Counters { flash, lines, .. } = cells.tell(Counters::default());
            let of =
                |flash: FlashUse| (flash.commands.programmed_pages(), flash.wear.erase_count_sum);
            (flash.map(of), lines.map(|lines| lines.write_count))
        };
        let lines = |write_count| Cells {
            lines: Some(LineUse { write_count, ..LineUse::default() }),
            ..Cells::default()
        };
        assert_eq!(told(Cells::default().with(Cells::default())), (None, None));
        let both = of_flash(3).with(lines(5)).with(of_flash(4)).with(lines(1));
        assert_eq!(told(both), (Some((7, 7)), Some(6)));
        let since = both.since(&of_flash(3).with(lines(2)));
        assert_eq!(told(since), (Some((4, 7)), Some(4)));
        assert_eq!(told(both.since(&Cells::default())), told(both));
        assert_eq!(told(since.gone().with(of_flash(1))), (Some((5, 1)), Some(4)));
    }
}
