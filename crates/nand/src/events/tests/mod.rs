//! The event core against a plain model that was written apart, from the rules alone: every end, to the
//! nanosecond, over shapes, policies and loads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod reference;

use super::*;
use crate::{Service, Suspend};
use nandu_base::FlashOperation;
use proptest::prelude::*;
use reference::{Bus, Policy, Shape};

/// Equal commands that follow each other, and how many they are. They wait for earlier runs, by number.
type Run = (reference::Command, u32);

/// The commands of all runs, each for itself, and the number of the last of each run.
fn one_by_one(runs: &[Run]) -> (Vec<reference::Command>, Vec<usize>) {
    let (mut commands, mut lasts) = (Vec::new(), Vec::new());
    for (command, count) in runs {
        let after = command.after.iter().map(|&run| lasts[run]).collect();
        let command = reference::Command { after, ..command.clone() };
        commands.extend(std::iter::repeat_n(command, *count as usize));
        lasts.push(commands.len() - 1);
    }
    (commands, lasts)
}

/// A load as both models can be asked for it: the end of every run.
fn run_both(shape: Shape, policy: Policy, runs: &[Run]) {
    let (commands, lasts) = one_by_one(runs);
    let spans = reference::simulate(shape, policy, &commands);
    let expected: Vec<u64> = lasts.iter().map(|&last| spans[last].end).collect();
    let mut core = core_of(shape, policy, &commands);
    let mut ends = vec![None; runs.len()];
    let mut tickets = Vec::new();
    let collect = |core: &mut EventCore, ends: &mut Vec<Option<u64>>| {
        while let Some(number) = core.take_finished() {
            ends[number as usize] = Some(core.now().0);
        }
    };
    for (number, (command, count)) in (0..).zip(runs) {
        while core.next_event().is_some_and(|at| at.0 <= command.issued_at) {
            core.step();
            collect(&mut core, &mut ends);
        }
        core.advance_to(Nanos(command.issued_at));
        let mut after = Ticket::READY;
        for &earlier in &command.after {
            after = core.both(after, tickets[earlier]);
        }
        let ticket = core.issue_many(after, &of_reference(command), *count);
        tickets.push(ticket);
        if !core.watch(ticket, number) {
            ends[number as usize] = Some(core.now().0);
        }
        collect(&mut core, &mut ends);
        core.audit();
    }
    while core.step() {
        collect(&mut core, &mut ends);
        core.audit();
    }
    let found: Vec<u64> = ends.iter().map(|end| end.unwrap()).collect();
    assert_eq!(found, expected);
    let is_sensed = |(command, span): &(&reference::Command, &reference::Span)| {
        command.page.is_some() && !span.hit
    };
    let sensed_count = commands.iter().zip(&spans).filter(is_sensed).count();
    let sensed = core.counters.total(FlashOperation::Read);
    assert_eq!(sensed, sensed_count as u64, "each array read is counted once");
    assert_eq!(core.open_count(), 0);
}

fn core_of(shape: Shape, policy: Policy, commands: &[reference::Command]) -> EventCore {
    let die_count = shape.channel_count * shape.dies_per_channel;
    let mut core = EventCore::new(die_count, shape.channel_count, policy.cache_register);
    let suspend = |(program, erase)| Suspend { program_ns: Nanos(program), erase_ns: Nanos(erase) };
    let scheduling = Scheduling {
        service: Service::Parallel,
        read_priority: policy.reads_first,
        suspend: policy.suspend.map(suspend),
        bus: match policy.bus {
            Bus::InOrder => BusPolicy::InOrder,
            Bus::ReadsFirst => BusPolicy::ReadsFirst,
            Bus::Fair => BusPolicy::Fair,
        },
    };
    let group_count = commands.iter().map(|command| command.group + 1).max().unwrap_or(1);
    core.schedule(scheduling, group_count);
    core
}

fn of_reference(command: &reference::Command) -> Command {
    let kind = match command.kind {
        reference::Kind::Read if command.urgent => Kind::UrgentRead,
        reference::Kind::Read => Kind::Read,
        reference::Kind::Program => Kind::Program,
        reference::Kind::Erase => Kind::Erase,
    };
    Command {
        kind,
        cause: if command.host { Cause::Host } else { Cause::Cleaning },
        die: command.die,
        group: u32::try_from(command.group).unwrap(),
        command_ns: command.command_ns,
        array_ns: command.array_ns,
        transfer_ns: if kind == Kind::Erase { 0 } else { command.transfer_ns },
        sensed: command.page.map(|page| (page, 1)),
        yields: command.yields,
    }
}

/// As most drives are simulated.
const PLAIN: Policy =
    Policy { bus: Bus::InOrder, reads_first: false, suspend: None, cache_register: false };

fn policies() -> impl Strategy<Value = Policy> {
    let bus = prop_oneof![Just(Bus::InOrder), Just(Bus::ReadsFirst), Just(Bus::Fair)];
    let suspend = prop_oneof![
        Just(None),
        Just(Some((0, 0))),
        (1_u64..40, 1_u64..200).prop_map(Some),
        Just(Some((100_000, 700_000))),
    ];
    let any = (bus, any::<bool>(), suspend, any::<bool>());
    let any = any.prop_map(|(bus, reads_first, suspend, cached)| {
        let suspend = suspend.filter(|_| reads_first && !cached);
        Policy { bus, reads_first, suspend, cache_register: cached }
    });
    prop_oneof![1 => Just(PLAIN), 3 => any]
}

/// Times that meet often, and times as chips have them.
fn times() -> impl Strategy<Value = [(u64, u64, u64); 3]> {
    let small = (0_u64..3, 1_u64..30, 0_u64..20);
    let command = prop_oneof![3 => Just(0), 1 => Just(300)];
    let real = (command, 1_u64..4, prop_oneof![Just(0_u64), Just(25_946)]);
    prop_oneof![
        3 => [small.clone(), small.clone(), small],
        1 => real.prop_map(|(command, scale, transfer)| [
            (command, 75_000 * scale, transfer),
            (command, 750_000 * scale, transfer),
            (command, 3_800_000 * scale, 0),
        ]),
    ]
}

type Load = (Shape, Policy, Vec<Run>);

fn loads() -> impl Strategy<Value = Load> {
    let shape = (1_usize..4, 1_usize..5)
        .prop_map(|(channel_count, dies_per_channel)| Shape { channel_count, dies_per_channel });
    let place = (any::<u32>(), prop_oneof![2 => Just(1_u32), 1 => 2_u32..6]);
    // Of the host, and urgent where that is a read; of nobody in particular; or one that yields.
    let rank =
        prop_oneof![2 => Just((true, false)), 2 => Just((false, false)), 1 => Just((false, true))];
    let command = (0_u64..40, place, 0_u32..20, rank, any::<u32>(), any::<u32>());
    let commands = proptest::collection::vec(command, 1..90);
    (shape, policies(), times(), 0_u64..4, 0_u32..4, commands).prop_map(
        |(shape, policy, times, haste, depends, drawn)| {
            let die_count = shape.channel_count * shape.dies_per_channel;
            let mut issued_at = 0;
            let mut commands: Vec<Run> = Vec::new();
            let scale = times[0].1 / 30 + 1;
            for (gap, (place, count), kind, (host, yields), first, second) in drawn {
                // Bursts, and gaps of the size of the times.
                issued_at += if gap > 8 * haste { 0 } else { gap * scale };
                let die = place as usize % die_count;
                let (kind, (command_ns, array_ns, transfer_ns)) = match kind {
                    0..10 => (reference::Kind::Read, times[0]),
                    10..18 => (reference::Kind::Program, times[1]),
                    _ => (reference::Kind::Erase, times[2]),
                };
                let mut after = Vec::new();
                for (turn, drawn) in [first, second].into_iter().enumerate() {
                    let wanted = usize::try_from(drawn % 4).unwrap() < depends as usize;
                    if wanted && turn < depends as usize && !commands.is_empty() {
                        after.push((drawn / 4) as usize % commands.len());
                    }
                }
                // Few pages, so that one follows another; equal commands in a row are of none, and nothing
                // is left without any time: rules say nothing on the order of what follows from it.
                let page = (place >> 8) % 6;
                let takes_time = command_ns + transfer_ns > 0;
                let is_read = kind == reference::Kind::Read;
                let is_shared = is_read && takes_time && count == 1 && page < 3;
                let group = die + die_count * (place as usize / die_count % 3);
                let urgent = host && kind == reference::Kind::Read;
                let command = reference::Command {
                    issued_at,
                    die,
                    group,
                    kind,
                    urgent,
                    host,
                    yields,
                    command_ns,
                    array_ns,
                    transfer_ns,
                    page: is_shared.then(|| page.into()),
                    after,
                };
                commands.push((command, count));
            }
            (shape, policy, commands)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn every_end_is_that_of_the_reference((shape, policy, runs) in loads()) {
        run_both(shape, policy, &runs);
    }
}

/// Requests of a closed loop on 4 channels x 8 dies with the times of `mqsim_mlc`: reads to uniform
/// dies, writes round robin.
fn draw_requests(read_percent: u64) -> impl FnMut(usize) -> reference::Command {
    let mut rng = nandu_base::Rng::new(7);
    let mut turn = 0;
    move |number: usize| {
        let is_read = rng.below(100) < read_percent;
        let die = if is_read { nandu_base::to_index(rng.below(32)) } else { turn % 32 };
        turn += usize::from(!is_read);
        let kind = if is_read { reference::Kind::Read } else { reference::Kind::Program };
        reference::Command {
            issued_at: 0,
            die,
            // Groups of their own: nothing is held back, and no read is behind its own program.
            group: number,
            kind,
            urgent: is_read,
            host: is_read,
            yields: false,
            command_ns: 0,
            array_ns: if is_read { 75_000 } else { 750_000 },
            transfer_ns: 25_946,
            page: None,
            after: Vec::new(),
        }
    }
}

const SHAPE: Shape = Shape { channel_count: 4, dies_per_channel: 8 };

/// The ends of a closed loop in the core.
fn closed_loop(depth: usize, total: usize, reads: u64, policy: Policy) -> Vec<u64> {
    let mut draw = draw_requests(reads);
    let mut core = core_of(SHAPE, policy, &[]);
    core.schedule(core.scheduling, total);
    let mut ends = vec![0; total];
    let (mut issued, mut ended) = (0, 0);
    while ended < total {
        while issued < total && issued < depth + ended {
            let ticket = core.issue(Ticket::READY, &of_reference(&draw(issued)));
            assert!(core.watch(ticket, to_u32(issued as u64)));
            issued += 1;
        }
        // All events of a moment come before what is issued then.
        core.step();
        while core.next_event() == Some(core.now()) {
            core.step();
        }
        while let Some(number) = core.take_finished() {
            ends[number as usize] = core.now().0;
            ended += 1;
        }
    }
    ends
}

#[test]
fn closed_loops_over_32_dies_and_4_channels_end_as_the_reference_has_it() {
    let first = Policy { reads_first: true, ..PLAIN };
    let policies = [
        PLAIN,
        Policy { bus: Bus::Fair, ..PLAIN },
        first,
        Policy { bus: Bus::ReadsFirst, suspend: Some((100_000, 700_000)), ..first },
        Policy { cache_register: true, ..PLAIN },
    ];
    for policy in policies {
        for (depth, reads) in [(1, 70), (32, 100), (32, 70), (128, 70), (64, 0)] {
            let draw = draw_requests(reads);
            let spans = reference::closed_loop(SHAPE, policy, depth, 6000, draw);
            let expected: Vec<u64> = spans.iter().map(|span| span.end).collect();
            let found = closed_loop(depth, 6000, reads, policy);
            assert_eq!(found, expected, "depth {depth}, {reads} % reads, {policy:?}");
        }
    }
}

#[test]
fn rates_are_those_that_another_event_driven_model_gave() {
    // Requests per ms of a model apart from both (75/750 us, 25.946 us a transfer).
    for (depth, reads, rate) in
        [(32, 100, 138.7), (128, 100, 152.0), (32, 70, 67.0), (128, 70, 98.6)]
    {
        let ends = closed_loop(depth, 200_000, reads, PLAIN);
        let last = *ends.iter().max().unwrap();
        let found = ends.len() as f64 / (last as f64 / 1e6);
        assert!((found / rate - 1.0).abs() < 0.01, "depth {depth}: {found} for {rate}");
    }
}

#[test]
fn gathered_ends_are_ends_of_all_and_a_gathering_that_is_awaited_takes_no_more() {
    let mut core = EventCore::new(2, 1, false);
    core.schedule(Scheduling::default(), 8);
    let command = |die, array_ns| Command {
        kind: Kind::Program,
        cause: Cause::Host,
        die,
        group: to_u32(die as u64),
        command_ns: 0,
        array_ns,
        transfer_ns: 0,
        sensed: None,
        yields: false,
    };
    let mut all = Ticket::READY;
    for length in [100, 50, 70] {
        let one = core.issue(Ticket::READY, &command(1, length));
        core.gather(&mut all, one);
    }
    // What waits for them is gathered with them: not with itself.
    let waits = core.issue(all, &command(0, 10));
    core.gather(&mut all, waits);
    core.finish(all);
    assert_eq!(core.now(), Nanos(230));
    assert!(core.is_done(waits) && core.open_count() == 0);
}

#[test]
fn a_promise_ends_with_what_keeps_it() {
    let mut core = EventCore::new(1, 1, false);
    core.schedule(Scheduling::default(), 1);
    let promise = core.promise();
    assert!(core.watch(promise, 3));
    let program = Command {
        kind: Kind::Program,
        cause: Cause::Host,
        die: 0,
        group: 0,
        command_ns: 1,
        array_ns: 20,
        transfer_ns: 0,
        sensed: None,
        yields: false,
    };
    let ticket = core.issue(Ticket::READY, &program);
    core.keep(promise, ticket);
    assert_eq!(core.take_finished(), None);
    core.finish(promise);
    assert_eq!((core.take_finished(), core.now()), (Some(3), Nanos(21)));
    let kept_late = core.promise();
    assert!(core.watch(kept_late, 4));
    core.keep(kept_late, ticket);
    assert_eq!(core.take_finished(), Some(4), "what it names had ended");
}
