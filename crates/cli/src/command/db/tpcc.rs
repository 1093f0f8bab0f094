//! `nandu db check-tpcc`: the twelve consistency conditions of TPC-C over loaded tables.

use super::{Answering, Place, open_to_read};
use crate::database;
use crate::failure::Failure;
use crate::output::Output;
use nandu::RestartReport;
use nandu_base::words::counted;
use nandu_load::tpcc::{TpccCheck, check};
use serde::Serialize;

/// What `check-tpcc --json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    check: &'a TpccCheck,
    /// What opening the database took, if it had not been closed.
    restart: Option<RestartReport>,
}

pub(super) fn check_tpcc(place: Place<'_>, to: &Answering<'_>) -> Result<(), Failure> {
    let (database, restart) = open_to_read(place)?;
    let found = check(&database.read());
    database::close(database, place.directory)?;
    let found = found?;
    match to.as_json {
        true => {
            to.context.output.json("db check-tpcc", &Answer { check: &found, restart })?;
        }
        false => tell_consistency(&found, &to.context.output)?,
    }
    refuse_broken(&found)
}

/// Tells which conditions do not hold, and where.
pub(in crate::command) fn tell_consistency(
    check: &TpccCheck,
    output: &Output,
) -> Result<(), Failure> {
    for condition in check.broken() {
        output.line(&format!(
            "condition {} (3.3.2.{}), {}, does not hold for {} of {}:",
            condition.number,
            condition.number,
            condition.what,
            condition.broken_count,
            condition.compared_count
        ))?;
        for finding in &condition.findings {
            output.line(&format!("  {finding}"))?;
        }
    }
    let sound_count = check.conditions.len() - check.broken().count();
    let warehouses = counted(check.warehouse_count, "warehouse");
    output.line(&format!(
        "consistency: {sound_count} of {} conditions hold for {warehouses}",
        check.conditions.len()
    ))
}

/// Says that a condition does not hold.
pub(in crate::command) fn refuse_broken(check: &TpccCheck) -> Result<(), Failure> {
    match check.broken().count() {
        0 => Ok(()),
        count => {
            let conditions = counted(count as u64, "condition");
            Err(Failure::shape(format!("{conditions} of TPC-C broken")))
        }
    }
}
