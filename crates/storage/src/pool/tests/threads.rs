//! Readers beside each other, with far fewer frames than pages.

use super::*;
use std::sync::atomic::AtomicU32;

/// How much a test does; Miri, which checks every access to memory, is thousands of times slower.
const READ_COUNT: u32 = if cfg!(miri) { 40 } else { 4000 };

fn page_of(rng: &mut Rng, page_count: u32) -> u32 {
    1 + rng.below(u64::from(page_count)) as u32
}

/// A pool whose pages each hold their number, some of them dirty.
fn numbered_pool(kind: ReplacementKind, frame_count: u32, has_reader: bool) -> (Pool, u32) {
    let page_count = 3 * frame_count;
    let disk = Disk::new(FaultPlan::default());
    let mut pool = pool_on(&disk, frame_count, kind, has_reader);
    for page in 1..=page_count {
        let mut frame = pool.create(address(page)).unwrap();
        frame.bytes_mut()[..4].copy_from_slice(&page.to_be_bytes());
        frame.bytes_mut()[400..404].copy_from_slice(&page.to_be_bytes());
        frame.note_change(0..4);
        frame.set_lsn(Lsn(u64::from(page)));
    }
    (pool, page_count)
}

fn check(bytes: &[u8], page: u32) {
    assert_eq!(bytes[..4], page.to_be_bytes());
    assert_eq!(bytes[400..404], page.to_be_bytes(), "the page does not change under a reader");
}

fn read_from_many_threads(kind: ReplacementKind, frame_count: u32, has_reader: bool) {
    let (pool, page_count) = numbered_pool(kind, frame_count, has_reader);
    let (pool, wanted_count) = (&pool, &AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                let mut done = 0;
                while done < READ_COUNT {
                    match rng.below(16) {
                        0 => {
                            let pages = [(); 5].map(|()| page_of(&mut rng, page_count));
                            let look = |index: usize, bytes: &[u8]| check(bytes, pages[index]);
                            pool.read_batch(&pages.map(address), look).unwrap();
                            done += 5;
                        }
                        1 => pool.prefetch(&[address(page_of(&mut rng, page_count))]),
                        2 => drop(pool.grant(rng.below(2) as u32)),
                        3 if thread == 0 => {
                            pool.write_back(&WriteBack::default()).unwrap();
                        }
                        4 if thread < 2 => {
                            if let Some(cleaning) = pool.plan_cleaning() {
                                cleaning.write().unwrap();
                                pool.land_cleaning();
                            }
                        }
                        _ => {
                            let page = page_of(&mut rng, page_count);
                            pool.read(address(page), |bytes| check(bytes, page)).unwrap();
                            done += 1;
                        }
                    }
                }
                wanted_count.fetch_add(done, Ordering::Relaxed);
            });
        }
    });
    let mut state = pool.lock();
    pool.finish_reads(&mut state);
    drop(state);
    pool.audit();
    let counters = pool.counters();
    let counted = counters.hit_count + counters.miss_count;
    assert_eq!(counted, u64::from(wanted_count.load(Ordering::Relaxed)), "{counters:?}");
}

#[test]
fn many_threads_read_through_a_small_pool() {
    for kind in ReplacementKind::ALL {
        for has_reader in [false, true] {
            read_from_many_threads(kind, 8, has_reader);
        }
    }
}

#[test]
fn more_threads_than_frames_wait_for_each_other() {
    read_from_many_threads(ReplacementKind::TwoQ, 3, true);
}
