//! Histories that once returned wrong data with success.

use super::setup;
use super::world::{Setup, World};
use nandu_array::WriteReturn;
use nandu_base::to_u32;
use nandu_device::UnflushedFate;

const DROPPED: UnflushedFate = UnflushedFate::Dropped;
const KEPT: UnflushedFate = UnflushedFate::Kept;

fn write_all(world: &mut World) {
    let count = to_u32(world.sector_count());
    world.begin_write(0, count);
    world.take_all().expect("the array keeps its word");
}

fn flush(world: &mut World) {
    world.begin_flush();
    world.take_all().expect("the array keeps its word");
}

fn cut(world: &mut World, fates: &[UnflushedFate], away: &[usize]) -> bool {
    world.plan_cut(u64::MAX, fates, 1);
    world.cut();
    world.open(away).expect("the array keeps its word")
}

fn all(code: (u8, u8, u8)) -> [Setup; 2] {
    [WriteReturn::Needed, WriteReturn::All].map(|write_return| setup(code, write_return))
}

#[test]
fn a_rebuilt_member_is_flushed_before_it_is_relied_on() {
    for setup in all((3, 2, 3)).into_iter().chain(all((2, 1, 2))) {
        let mut world = World::new(&setup);
        write_all(&mut world);
        flush(&mut world);
        world.fail(0);
        world.replace(&setup, 0, false).unwrap();
        world.settle().unwrap();
        assert!(world.is_good(0));
        world.begin_write(0, 1);
        world.take_all().unwrap();
        let fates = vec![DROPPED; world.member_count()];
        // The other one is away: what was rebuilt is all there is.
        assert!(cut(&mut world, &fates, &[1]));
        world.read_all().unwrap();
    }
}

#[test]
fn a_member_that_missed_a_flush_is_not_believed_when_it_comes_back() {
    for setup in all((4, 3, 4)).into_iter().chain(all((4, 2, 4))) {
        let mut world = World::new(&setup);
        write_all(&mut world);
        flush(&mut world);
        for index in 0..world.spare_count() {
            world.unplug(index, DROPPED, 0);
        }
        write_all(&mut world);
        flush(&mut world);
        // Of those that were there one alone keeps a write more: the stale ones are no minority.
        write_all(&mut world);
        let mut fates = vec![DROPPED; world.member_count()];
        fates[world.member_count() - 1] = KEPT;
        assert!(cut(&mut world, &fates, &[]));
        world.read_all().unwrap();
        world.settle().unwrap();
        assert_eq!(world.bad_count(), 0, "and has everything again");
        world.read_all().unwrap();
    }
}

#[test]
fn two_writes_of_one_place_in_history_are_told_apart() {
    for setup in all((2, 1, 2)).into_iter().chain(all((4, 3, 4))) {
        let mut world = World::new(&setup);
        write_all(&mut world);
        flush(&mut world);
        // One member keeps what nobody else does; then it is away while another takes its place.
        write_all(&mut world);
        let mut fates = vec![DROPPED; world.member_count()];
        fates[0] = KEPT;
        assert!(cut(&mut world, &fates, &[0]));
        write_all(&mut world);
        flush(&mut world);
        let fates = vec![KEPT; world.member_count()];
        assert!(cut(&mut world, &fates, &[]));
        world.read_all().unwrap();
        world.scrub();
        world.settle().unwrap();
        world.read_all().unwrap();
    }
}

#[test]
fn a_flush_waits_for_fragments_of_writes_that_returned_early() {
    for code in [(2, 1, 2), (3, 1, 3), (4, 2, 4)] {
        let setup = setup(code, WriteReturn::Needed);
        for kept in 0..usize::from(setup.member_count) {
            let mut world = World::new(&setup);
            write_all(&mut world);
            flush(&mut world);
            world.begin_write(0, to_u32(world.stripe_sectors()));
            world.take_one().unwrap();
            flush(&mut world);
            let fates = vec![DROPPED; world.member_count()];
            assert!(cut(&mut world, &fates, &[kept]));
            world.read_all().unwrap();
        }
    }
}

#[test]
fn more_new_devices_than_a_code_bears_are_an_error_and_never_zeros() {
    for setup in all((3, 2, 3)).into_iter().chain(all((4, 2, 4))) {
        let mut world = World::new(&setup);
        write_all(&mut world);
        flush(&mut world);
        for index in 0..=world.spare_count() {
            world.fail(index);
            world.replace(&setup, index, false).unwrap();
        }
        let fates = vec![KEPT; world.member_count()];
        assert!(cut(&mut world, &fates, &[]));
        world.read_all().unwrap();
        world.settle().unwrap();
        world.read_all().unwrap();
        assert!(world.tally.hole_count > 0, "what is lost is reported");
        assert_eq!(world.bad_count(), 0, "and can be written anew");
        write_all(&mut world);
        flush(&mut world);
        world.read_all().unwrap();
    }
}
