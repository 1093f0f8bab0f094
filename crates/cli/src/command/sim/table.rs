//! A report of a simulation on the terminal.

use crate::Context;
use crate::command::inside::{self, View};
use crate::failure::Failure;
use nandu_base::units::{figures, three_digits};
use nandu_base::words::wrap;
use nandu_base::{ByteCount, Nanos};
use nandu_probe::table::{Table, rate, time};
use nandu_sim::SimReport;

/// Prints the report of a simulation.
pub(super) fn print(report: &SimReport, context: &Context) -> Result<(), Failure> {
    print_head(report, context)?;
    print_work(report, context)?;
    print_times(report, context)?;
    inside::print(&view_of(report), context)?;
    print_wear(report, context)?;
    if let Some(checks) = report.checks {
        context.output.line(&format!(
            "\nchecks passed: {} units read held what was last written, {} audits",
            checks.compared_units, checks.audit_count
        ))?;
    }
    Ok(())
}

fn view_of(report: &SimReport) -> View<'_> {
    let held_back_by = match (report.merges, report.map_cache) {
        (Some(_), _) => ", by merges",
        (_, Some(_)) => ", by map or cleaning",
        _ => ", by cleaning",
    };
    View {
        time_shares: &report.time_shares,
        held_back_by,
        die_held_share: &report.die_held_share,
        channel_busy_share: &report.channel_busy_share,
    }
}

fn print_head(report: &SimReport, context: &Context) -> Result<(), Failure> {
    let echo = &report.config;
    let output = context.output;
    let layer = serde_json::to_value(&echo.ssd.ftl).ok();
    let kind = layer.as_ref().and_then(|layer| layer["kind"].as_str()).unwrap_or("?");
    output.line(&output.strong(&format!(
        "{}: {kind} map over {} erase blocks of {} pages of {}",
        echo.job.drive.name,
        echo.physical_erase_blocks,
        echo.nand.geometry.flash_pages_per_erase_block,
        ByteCount(u64::from(echo.nand.geometry.flash_page_bytes))
    )))?;
    let mode = echo.job.run.mode.label();
    output.line(&format!(
        "  {} logical pages, utilisation {:.3}, {mode} mode, seed {}",
        echo.logical_pages, echo.utilisation, report.seed
    ))?;
    for line in wrap(&report.source, output.text_width() - 4) {
        output.line(&format!("  {}", output.faint(&line)))?;
    }
    if report.skipped_lines > 0 {
        let first = report.first_skipped.as_deref().unwrap_or_default();
        let said = format!("{} bad lines skipped; the first: {first}", report.skipped_lines);
        for line in wrap(&said, output.text_width() - 4) {
            output.line(&format!("  {line}"))?;
        }
    }
    Ok(())
}

fn print_work(report: &SimReport, context: &Context) -> Result<(), Failure> {
    context.output.heading("Chip commands")?;
    let mut table = Table::new(&["operation", "cause", ">count", ">per host page written"]);
    let per_page = |count: u64| match report.host_write_pages {
        0 => "-".into(),
        pages => format!("{:.4}", count as f64 / pages as f64),
    };
    for (operation, causes) in &report.nand {
        for (cause, &count) in causes {
            table.row(vec![operation.clone(), cause.clone(), count.to_string(), per_page(count)]);
        }
    }
    context.output.table(&table)?;
    context.output.line(&format!(
        "\nwrite amplification {}{}",
        context.output.strong(&format!("{:.4}", report.write_amplification)),
        report.closed_form.map_or_else(String::new, |theory| format!(
            ", closed form {:.4} ({:+.2} %)",
            theory.write_amplification,
            theory.deviation * 100.0
        ))
    ))
}

fn print_times(report: &SimReport, context: &Context) -> Result<(), Failure> {
    context.output.heading("Response times")?;
    let mut table =
        Table::new(&["request", ">count", ">mean", ">stddev", ">p50", ">p99", ">p99.9", ">max"]);
    for (operation, of) in report.latency_ns.iter().filter(|(_, of)| of.count > 0) {
        let mut row = vec![operation.clone(), of.count.to_string(), time(of.mean), time(of.stddev)];
        row.extend([of.p50, of.p99, of.p999, of.max].map(|nanos| Nanos(nanos).to_string()));
        table.row(row);
    }
    context.output.table(&table)
}

/// What only some layers and sources have.
fn special_lines(report: &SimReport) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let mut map = ByteCount(report.map_bytes).to_string();
    if let Some(cache) = report.map_cache {
        let share = cache.hits as f64 / (cache.hits + cache.misses).max(1) as f64;
        map += &format!(
            ", {} of {} look-ups found in it ({:.1} %)",
            cache.hits,
            cache.hits + cache.misses,
            share * 100.0
        );
    }
    lines.push(("map", map));
    if let Some(merges) = report.merges {
        let text =
            format!("{} full, {} partial, {} switch", merges.full, merges.partial, merges.switch);
        lines.push(("merges", text));
    }
    if let Some(unique) = report.unique_pages {
        let share = unique.touched as f64 / report.config.logical_pages.max(1) as f64;
        lines.push((
            "pages",
            format!(
                "{} different ones touched ({:.1} %): {} read, {} written, {} of them both",
                unique.touched,
                share * 100.0,
                unique.read,
                unique.write,
                unique.shared
            ),
        ));
    }
    lines
}

/// What the controller's cache did, where there is one.
fn cache_line(report: &SimReport) -> Option<(&'static str, String)> {
    let cache = report.cache?;
    let text = format!(
        "{} units, {:.1} % of reads found, {} writes merged, {} units written back, {} left dirty",
        cache.unit_count,
        cache.hit_share() * 100.0,
        cache.merged_writes,
        cache.layer_writes(),
        cache.dirty_units
    );
    Some(("cache", text))
}

fn print_wear(report: &SimReport, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    output.heading("Drive")?;
    let erases = &report.erase_count;
    let mut lines = vec![
        (
            "simulated",
            format!(
                "{}, {} requests/s, dies busy {:.1} %",
                Nanos(report.simulated_ns),
                rate(report.requests_per_second),
                report.die_utilisation * 100.0
            ),
        ),
        (
            "erases",
            format!(
                "{:.2} a block (min {}, max {}, stddev {:.2})",
                erases.mean, erases.min, erases.max, erases.stddev
            ),
        ),
    ];
    if let Some(lifetime) = &report.lifetime {
        lines.push((
            "lifetime",
            format!(
                "{} drive writes a day for five years at {} erases, {} if wear is not levelled; {} years of \
                 this load",
                three_digits(lifetime.drive_writes_per_day),
                lifetime.endurance,
                three_digits(lifetime.drive_writes_per_day_unlevelled),
                figures(lifetime.years)
            ),
        ));
    }
    if let Some(energy) = &report.energy {
        lines.push((
            "energy",
            format!(
                "chips, {}; {} nJ for each byte of the host",
                energy.report.line(),
                three_digits(energy.nanojoules_per_host_byte)
            ),
        ));
    }
    lines.extend(special_lines(report));
    lines.extend(cache_line(report));
    let bytes = three_digits(report.simulator_bytes_per_logical_page);
    lines.push(("simulator", format!("{bytes} bytes of memory for each logical page")));
    if let Some(wall_ns) = report.wall_ns {
        let seconds = (wall_ns as f64 / 1e9).max(1e-9);
        lines.push((
            "took",
            format!(
                "{}, {} requests/s with the warm-up",
                time(wall_ns as f64),
                rate((report.request_count + report.config.warm_up_units) as f64 / seconds)
            ),
        ));
    }
    for (name, value) in lines {
        let lines = wrap(&value, output.text_width() - 13);
        for (name, line) in std::iter::once(name).chain(std::iter::repeat("")).zip(lines) {
            output.line(&format!("  {name:<11}{line}"))?;
        }
    }
    Ok(())
}
