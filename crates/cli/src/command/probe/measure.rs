//! Does the work on the open device and derives what it says.

use super::ProbeArguments;
use super::inside::InsideReport;
use super::report::{Machine, ProbeReport};
use super::steady_state::SteadyStateReport;
use super::work::Work;
use crate::failure::Failure;
use crate::progress::Progress;
use nandu_base::Nanos;
use nandu_device::{Counters, Device, EnergyReport, MeteredDevice, PowerLog};
use nandu_drives::file::{cpu_time, machine_description};
use nandu_drives::price::Prices;
use nandu_drives::target::{OpenTarget, TargetDescription};
use nandu_drives::worth::{Used, Worth};
use nandu_probe::{
    BurstResult, DeviceProfile, DiagnosisInput, EnduranceResult, PatternResult, StreamProfile,
    derive, diagnose, empty_cache, measure_streams, run_burst, run_endurance, run_plan,
};

/// What was measured.
struct Measured {
    results: Vec<PatternResult>,
    bursts: Vec<BurstResult>,
    endurance: Option<EnduranceResult>,
    steady_state: Option<SteadyStateReport>,
    streams: Option<StreamProfile>,
}

/// Measures everything and sums it up.
pub(super) fn measure(
    mut open: OpenTarget,
    work: Work,
    notes: Vec<String>,
    arguments: &ProbeArguments,
    progress: &mut Progress,
) -> Result<ProbeReport, Failure> {
    let info = open.device().info().clone();
    // Where there is no page cache to empty, that is told before anything is written.
    if work.empties_cache() {
        empty_cache(open.device_mut())?;
    }
    progress.set_step_count(work.step_count(&info));
    let (cpu_before, wall_before) = (cpu_time(), open.device().now());
    let before = open.device().counters();
    let log = PowerLog::default();
    if let Some(energy) = before.energy {
        log.begin(wall_before, energy.total());
    }
    if matches!(open.description, TargetDescription::Real { .. }) {
        progress.begin_meter();
    }
    let measured = do_work(open.device_mut(), (&work, &log), progress)?;
    let cpu_spent = cpu_time().since(cpu_before).total();
    let ended_at = open.device().now();
    let after = open.device().counters();
    let request_count = after.request_count() - before.request_count();
    let meter = progress.end_meter(Some(request_count));
    let energy = energy_since(&before, &after, (wall_before, ended_at), &log);
    let wall_spent = ended_at.saturating_sub(wall_before);
    let Measured { results, bursts, endurance, steady_state, streams } = measured;
    // Rounds before the steady state are shown, but they are not what the device sustains.
    let judged = match &steady_state {
        Some(steady) => results.iter().map(|result| steady.window_of(result)).collect(),
        None => results.clone(),
    };
    let machine = machine_of(&open.description, cpu_spent, wall_spent);
    let title = match &open.description {
        TargetDescription::Simulated(profile) => Some(profile.title.clone()),
        TargetDescription::Real { .. } => None,
    };
    let used = ((&before, &after), wall_spent, request_count);
    let worth = worth_of(&open.description, used);
    let mut input = DiagnosisInput::new(&info, &judged);
    input.steady_state = steady_state.as_ref().map(|steady| &steady.state);
    if let TargetDescription::Simulated(profile) = &open.description {
        input.write_cache = profile.has_write_cache();
    }
    if let Some(machine) = &machine {
        input.cpu_time = Some(machine.processor_time);
        input.wall_time = Some(machine.elapsed);
        input.memory = machine.machine.memory;
        input.direct = Some(machine.direct);
        input.physical_block_bytes = machine.disk.physical_block_bytes;
    }
    let findings = diagnose(&input);
    Ok(ProbeReport {
        nandu_version: env!("CARGO_PKG_VERSION"),
        target: arguments.target.clone(),
        series: work.name,
        seed: arguments.seed,
        profile: derive(&info, &judged, &bursts)
            .ok()
            .map(|profile| DeviceProfile { streams, ..profile }),
        device: info,
        title,
        machine,
        results,
        bursts,
        endurance,
        steady_state,
        inside: open.inside().and_then(|inside| InsideReport::of(&inside, ended_at)),
        energy,
        meter,
        worth,
        findings,
        notes,
    })
}

/// What a device used from the beginning to the end of a probe, where it says so; preparations included.
fn energy_since(
    before: &Counters,
    after: &Counters,
    (from, to): (Nanos, Nanos),
    log: &PowerLog,
) -> Option<EnergyReport> {
    let used = after.energy?.since(&before.energy?);
    let request_count = after.request_count() - before.request_count();
    let mut report = EnergyReport::of_model(&used, to.saturating_sub(from), request_count);
    report.watts_over_time = log.end(to, after.energy?.total());
    Some(report)
}

/// What a simulated drive did for its money between two readings.
fn worth_of(
    description: &TargetDescription,
    (readings, time, request_count): ((&Counters, &Counters), Nanos, u64),
) -> Option<Worth> {
    let TargetDescription::Simulated(profile) = description else { return None };
    let used = Used::between(profile, readings, time, request_count);
    Some(Worth::of(profile, &Prices::embedded(), &used))
}

fn do_work(
    device: &mut dyn Device,
    (work, log): (&Work, &PowerLog),
    progress: &mut Progress,
) -> Result<Measured, Failure> {
    // Who tells no energy is not looked at, so that nothing stands before a real device.
    let mut metered;
    let device: &mut dyn Device = match device.counters().energy {
        Some(_) => {
            metered = MeteredDevice::new(device, log.clone());
            &mut metered
        }
        None => device,
    };
    let (mut results, mut bursts, mut endurance) = (Vec::new(), Vec::new(), None);
    for plan in &work.plans {
        let watcher = progress.clone();
        let mut keep = |result| {
            results.push(result);
            watcher.step_done();
        };
        run_plan(device, plan, progress, &mut keep)?;
    }
    for options in &work.bursts {
        bursts.push(run_burst(device, options, progress)?);
        progress.step_done();
    }
    if let Some(options) = &work.endurance {
        endurance = Some(run_endurance(device, options, progress)?);
        progress.step_done();
    }
    let mut steady_state = None;
    if let Some(work) = &work.steady_state {
        let (result, report) = work.run(device, progress)?;
        results.push(result);
        steady_state = Some(report);
    }
    let mut streams = None;
    if let Some(options) = &work.streams {
        streams = Some(measure_streams(device, options, progress)?);
        progress.step_done();
    }
    Ok(Measured { results, bursts, endurance, steady_state, streams })
}

/// What surrounds a real device; nothing for a simulated one, whose report must not depend on it.
fn machine_of(description: &TargetDescription, cpu: Nanos, wall: Nanos) -> Option<Machine> {
    let TargetDescription::Real { disk, engine, direct, is_scratch } = description else {
        return None;
    };
    Some(Machine {
        machine: machine_description(),
        disk: (**disk).clone(),
        engine: engine.label(),
        direct: *direct,
        is_scratch: *is_scratch,
        processor_time: cpu,
        elapsed: wall,
    })
}
