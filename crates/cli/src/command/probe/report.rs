//! What a probe found, as JSON and on the terminal.

use super::inside::InsideReport;
use super::steady_state::SteadyStateReport;
use crate::Context;
use crate::failure::Failure;
use crate::meter::MeterReport;
use nandu_base::Nanos;
use nandu_base::units::three_digits;
use nandu_base::words::wrap;
use nandu_device::{DeviceInfo, EnergyReport};
use nandu_drives::file::{DiskDescription, MachineDescription};
use nandu_drives::worth::Worth;
use nandu_probe::profile::FIT_ERROR_MAX;
use nandu_probe::table::{
    Table, model_table, pattern_table, profile_summary, throughput, throughput_table, time,
};
use nandu_probe::{BurstResult, DeviceProfile, EnduranceResult, Finding, PatternResult, Severity};
use serde::Serialize;

/// Rows of a wear table; more passes are thinned out.
const WEAR_ROWS_MAX: usize = 20;

/// Everything that a probe found.
#[derive(Debug, Serialize)]
pub(super) struct ProbeReport {
    pub(super) nandu_version: &'static str,
    pub(super) target: String,
    pub(super) series: String,
    pub(super) seed: u64,
    pub(super) device: DeviceInfo,
    /// Of a simulated drive only: what its profile calls it.
    pub(super) title: Option<String>,
    /// Of a real device only.
    pub(super) machine: Option<Machine>,
    pub(super) profile: Option<DeviceProfile>,
    pub(super) findings: Vec<Finding>,
    /// What the author of a job file should know.
    pub(super) notes: Vec<String>,
    pub(super) results: Vec<PatternResult>,
    pub(super) bursts: Vec<BurstResult>,
    pub(super) endurance: Option<EnduranceResult>,
    /// Of the steady-state series only; its rounds are the runs of the only result.
    pub(super) steady_state: Option<SteadyStateReport>,
    /// What the device used, where it says so, preparations included.
    pub(super) energy: Option<EnergyReport>,
    /// What a meter of this machine told, or why there is none.
    #[serde(flatten)]
    pub(super) meter: MeterReport,
    /// Of a simulated drive only: what it did for its money, and how long it would last, preparations included.
    pub(super) worth: Option<Worth>,
    /// Of a simulated solid-state drive only.
    pub(super) inside: Option<InsideReport>,
}

/// What surrounds a real device.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) machine: MachineDescription,
    pub(super) disk: DiskDescription,
    pub(super) engine: &'static str,
    pub(super) direct: bool,
    pub(super) is_scratch: bool,
    pub(super) processor_time: Nanos,
    pub(super) elapsed: Nanos,
}

/// Prints the report of a probe.
pub(super) fn print(report: &ProbeReport, context: &Context) -> Result<(), Failure> {
    print_head(report, context)?;
    if let (Some(steady), Some(result)) = (&report.steady_state, report.results.first()) {
        steady.print(result, context)?;
        print_inside(report, context)?;
        print_costs(report, context)?;
        return print_findings(report, context);
    }
    if let Some(profile) = &report.profile {
        context.output.heading("Throughput")?;
        context.output.table(&throughput_table(profile))?;
    }
    if report.results.iter().any(|result| !result.pattern.label.is_empty())
        || report.profile.is_none()
    {
        print_patterns(report, context)?;
    }
    if let Some(profile) = &report.profile {
        print_profile(profile, context)?;
    }
    print_bursts(&report.bursts, context)?;
    if let Some(endurance) = &report.endurance {
        print_endurance(endurance, context)?;
    }
    print_inside(report, context)?;
    print_costs(report, context)?;
    print_findings(report, context)
}

fn print_costs(report: &ProbeReport, context: &Context) -> Result<(), Failure> {
    let energy = report.energy.iter().map(|energy| format!("energy, {}", energy.line()));
    let meter = report.machine.iter().map(|_| report.meter.line());
    let worth = report.worth.as_ref().and_then(Worth::line);
    for line in energy.chain(meter).chain(worth.map(|line| format!("worth: {line}"))) {
        context.output.line("")?;
        context.output.sentence(&line)?;
    }
    Ok(())
}

fn print_inside(report: &ProbeReport, context: &Context) -> Result<(), Failure> {
    report.inside.as_ref().map_or(Ok(()), |inside| inside.print(context))
}

fn print_head(report: &ProbeReport, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    let capacity = report.device.geometry.capacity();
    let series = format!("series {}, seed {}", report.series, report.seed);
    output.line(&format!(
        "{}  {}",
        output.strong(&report.target),
        output.faint(&format!("{capacity}, {series}"))
    ))?;
    if let Some(title) = &report.title {
        output.line(&output.faint(title))?;
    }
    let Some(machine) = &report.machine else {
        return Ok(());
    };
    let disk = &machine.disk;
    let system = disk.file_system.as_deref().unwrap_or("no file system");
    let source = disk.source.as_deref().unwrap_or("unknown device");
    let cache = if machine.direct { "past the page cache" } else { "through the page cache" };
    let scratch = if machine.is_scratch { "scratch file, " } else { "" };
    let text = format!("{scratch}{system} on {source}, {}, {cache}", machine.engine);
    output.line(&output.faint(&text))
}

fn print_patterns(report: &ProbeReport, context: &Context) -> Result<(), Failure> {
    if report.results.is_empty() {
        return Ok(());
    }
    context.output.heading("Patterns")?;
    context.output.table(&pattern_table(&report.results))
}

fn print_profile(profile: &DeviceProfile, context: &Context) -> Result<(), Failure> {
    let models = model_table(profile);
    if models.row_count() > 0 {
        context.output.heading("Time of one request: t(b) = t0 + b / F")?;
        context.output.table(&models)?;
        if profile.models.iter().any(|model| !model.line.fits()) {
            let text = format!(
                "No line fits where it would miss a size by more than {:.0} %: the time of such requests \
                 is no t0 + b / F, and --json has the nearest line only with its error.",
                FIT_ERROR_MAX * 100.0
            );
            for line in wrap(&text, context.output.text_width()) {
                context.output.line(&context.output.faint(&line))?;
            }
        }
    }
    if !profile.has_findings() {
        return Ok(());
    }
    context.output.heading("Profile")?;
    context.output.text(&profile_summary(profile))
}

fn print_bursts(bursts: &[BurstResult], context: &Context) -> Result<(), Failure> {
    if bursts.is_empty() {
        return Ok(());
    }
    context.output.heading("Sequential writes after a burst of random writes")?;
    let mut table =
        Table::new(&[">burst", ">before", ">median after", ">first phase", ">recovery"]);
    for burst in bursts {
        table.row(vec![
            burst.options.burst.to_string(),
            throughput(burst.before.medians.bytes_per_second),
            throughput(burst.median_bytes_per_second),
            format!("{} of before", three_digits(burst.first_phase_ratio)),
            burst.recovery_time.to_string(),
        ]);
    }
    context.output.table(&table)
}

fn print_endurance(endurance: &EnduranceResult, context: &Context) -> Result<(), Failure> {
    context.output.heading("Endurance")?;
    let mut table =
        Table::new(&[">pass", ">written", ">throughput", ">99 % latency", ">most erases"]);
    let step = endurance.points.len().div_ceil(WEAR_ROWS_MAX).max(1);
    let last = endurance.points.len().saturating_sub(1);
    for (pass, point) in endurance.points.iter().enumerate() {
        if pass % step != 0 && pass != last {
            continue;
        }
        table.row(vec![
            (pass + 1).to_string(),
            nandu_base::ByteCount(point.written_bytes).to_string(),
            throughput(point.bytes_per_second),
            time(point.latency_p99_ns as f64),
            point.erase_count_max.map_or_else(|| "-".into(), |count| count.to_string()),
        ]);
    }
    context.output.table(&table)?;
    let end = match &endurance.failure {
        Some(failure) => format!("The device failed: {failure}"),
        None => format!("The device lived through {} passes.", endurance.points.len()),
    };
    context.output.line(&end)
}

fn print_findings(report: &ProbeReport, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    if !report.findings.is_empty() || !report.notes.is_empty() {
        output.heading("What to know about these numbers")?;
    }
    let notes = report.notes.iter().map(|note| ("note", note));
    let findings = report.findings.iter().map(|finding| match finding.severity {
        Severity::Warning => ("warning", &finding.text),
        _ => ("note", &finding.text),
    });
    for (kind, text) in findings.chain(notes) {
        let mark = format!("{kind:<7}");
        let mark = if kind == "warning" { output.verdict(false, &mark) } else { mark };
        for (position, line) in wrap(text, output.text_width() - 11).iter().enumerate() {
            let start = if position == 0 { format!("  {mark}  ") } else { " ".repeat(11) };
            output.line(&format!("{start}{line}"))?;
        }
    }
    Ok(())
}
