//! What happened inside a simulated solid-state drive while it was probed, preparations included.

use crate::Context;
use crate::command::inside::{self, View};
use crate::failure::Failure;
use nandu_base::Nanos;
use nandu_drives::ssd::{Inside, LinkUse};
use nandu_probe::table::{Table, time};
use nandu_sim::{TimeShare, shares_of, time_shares_of};
use serde::Serialize;
use std::collections::BTreeMap;

/// Shares are of the time from the drive's first to its last request.
#[derive(Debug, Serialize)]
pub(super) struct InsideReport {
    elapsed_ns: u64,
    /// What chip commands of the host waited for and took, by operation.
    time_shares: BTreeMap<String, TimeShare>,
    /// Of each die, in which a command was in flight on it.
    die_held_share: Vec<f64>,
    /// Of each channel, in which it moved data.
    channel_busy_share: Vec<f64>,
    /// In which the controller took commands.
    controller_busy_share: f64,
    link_to_drive: LinkReport,
    link_to_host: LinkReport,
}

/// One direction of the link.
#[derive(Debug, Serialize)]
struct LinkReport {
    request_count: u64,
    /// What a request waited for it, on average.
    wait_ns: f64,
    busy_share: f64,
}

impl InsideReport {
    /// `None` where no time passed.
    pub(super) fn of(inside: &Inside, elapsed: Nanos) -> Option<Self> {
        let share = |busy: Nanos| shares_of(&[busy], elapsed).first().copied();
        let controller_busy_share = share(inside.controller_busy)?;
        let link = |of: &LinkUse| LinkReport {
            request_count: of.request_count,
            wait_ns: of.waited.0 as f64 / of.request_count.max(1) as f64,
            busy_share: share(of.busy).unwrap_or(0.0),
        };
        Some(Self {
            elapsed_ns: elapsed.0,
            time_shares: time_shares_of(&inside.flash),
            die_held_share: shares_of(&inside.flash.die_held, elapsed),
            channel_busy_share: shares_of(&inside.flash.channel_busy, elapsed),
            controller_busy_share,
            link_to_drive: link(&inside.link_to_drive),
            link_to_host: link(&inside.link_to_host),
        })
    }

    pub(super) fn print(&self, context: &Context) -> Result<(), Failure> {
        let view = View {
            time_shares: &self.time_shares,
            held_back_by: ", by other commands",
            die_held_share: &self.die_held_share,
            channel_busy_share: &self.channel_busy_share,
        };
        inside::print(&view, context)?;
        context.output.heading("Controller and link")?;
        let mut table = Table::new(&["server", ">requests", ">busy", ">wait for it"]);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let links =
            [("link to the drive", &self.link_to_drive), ("link to the host", &self.link_to_host)];
        table.row(vec![
            "controller".into(),
            String::new(),
            percent(self.controller_busy_share),
            String::new(),
        ]);
        for (name, link) in links {
            let (count, wait) = (link.request_count.to_string(), time(link.wait_ns));
            table.row(vec![name.into(), count, percent(link.busy_share), wait]);
        }
        context.output.table(&table)?;
        let elapsed = Nanos(self.elapsed_ns);
        context.output.line(&format!("Over all that was done in {elapsed}, preparations included."))
    }
}
