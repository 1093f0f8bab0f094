//! Full chips, worn ones, and those that do not suit.

use super::*;

fn create(laws: MemoryFlashConfig, settings: &InPageLoggingSettings) -> Result<(), String> {
    let media = media(&disk(DISK_SECTORS), &SharedFlash::with(laws), true);
    let created = InPageLogging::create(&media, PAGE_BYTES, settings);
    created.map(drop).map_err(|error| error.to_string())
}

#[test]
fn chips_that_do_not_suit_are_refused_before_anything_is_made() {
    let told = |laws, settings| create(laws, &settings).unwrap_err();
    let mut without_spare = chips(48, 1024);
    without_spare.geometry.spare_bytes = 16;
    assert!(told(without_spare, small()).contains("spare areas of 16 bytes"));
    let one_program = MemoryFlashConfig { programs_per_erase: 1, ..chips(48, 2048) };
    let one_sector = told(one_program, small());
    assert!(one_sector.contains("takes 1 programs between two erases"), "{one_sector}");
    let region = InPageLoggingSettings { log_region_bytes: 16 << 10, ..small() };
    assert!(told(chips(48, 1024), region).contains("leaves no room for a page"));
    let few = told(chips(2, 1024), small());
    assert!(
        few.contains("has 2 units of 1 erase blocks") && few.contains("2 are in reserve"),
        "{few}"
    );
    let bad = MemoryFlashConfig { bad_erase_blocks: (0..46).collect(), ..chips(48, 1024) };
    assert!(told(bad, small()).contains("has 2 units"));
    assert_eq!(create(chips(3, 1024), &small()), Ok(()));
}

/// Writes pages that have none until there is no room, and counts them.
fn fill(bench: &mut Bench) -> u32 {
    for number in 1.. {
        let before = bench.model.clone();
        match bench.write(&[page(1, number)]) {
            Ok(()) => {}
            Err(StorageError::NoSpace { what }) => {
                assert!(what.contains("drop a table, or take larger chips"), "{what}");
                bench.model = before;
                return number - 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("chips are finite")
}

#[test]
fn full_chips_say_so_and_pages_that_are_there_can_be_written_on() {
    for number in 0..6 {
        let (mut laws, settings) = variant(number);
        laws.geometry.erase_block_count = 12 * settings.erase_blocks_per_unit;
        laws.bad_erase_blocks.retain(|&block| block < 4);
        let mut bench = Bench::new(laws, settings);
        let room = bench.propagation.room_pages(1).unwrap();
        let count = fill(&mut bench);
        assert_eq!(u64::from(count), room, "{number}: room was told");
        assert_eq!(bench.propagation.room_pages(1), Ok(0));
        let mut rng = Rng::new(number);
        for _ in 0..300 {
            let at = page(1, 1 + rng.below(count.into()) as u32);
            bench.write(&[at]).unwrap();
            if rng.below(4) == 0 {
                bench.sync().unwrap();
            }
            bench.propagation.audit();
        }
        assert!(bench.propagation.counters().merge_count > 10, "{number}");
        bench.check();
        bench.sync().unwrap();
        bench.reopen().unwrap();
        // What is cut off makes room for as many.
        let left = count / 3;
        bench.truncate(FileId(1), left + 1).unwrap();
        bench.check();
        bench.reopen().unwrap();
        assert_eq!(bench.propagation.room_pages(1), Ok(u64::from(count - left)), "{number}");
        let again: Vec<PageAddress> = (1..=count - left).map(|it| page(2, it)).collect();
        for part in again.chunks(7) {
            bench.write(part).unwrap();
        }
        assert_eq!(bench.propagation.room_pages(1), Ok(0), "{number}");
        bench.check();
    }
}

#[test]
fn worn_chips_refuse_writes_and_keep_what_they_have() {
    for number in 0..6 {
        let (mut laws, settings) = variant(number);
        laws.geometry.erase_block_count = 10 * settings.erase_blocks_per_unit;
        laws.bad_erase_blocks.clear();
        laws.endurance = 12;
        let mut bench = Bench::new(laws, settings);
        let mut rng = Rng::new(number);
        let mut write_count = 0;
        let error = loop {
            let at = page(1, 1 + rng.below(20) as u32);
            let before = bench.model.clone();
            if let Err(error) = bench.write(&[at]).and_then(|()| bench.sync()) {
                // The page may have been written, and waits.
                let found = bench.read_all().unwrap();
                bench.model = before;
                bench.model.versions.entry(at).or_insert_with(|| vec![0]).push(found[&at]);
                break error;
            }
            write_count += 1;
            assert!(write_count < 100_000, "erase blocks wear out");
        };
        assert!(matches!(error, StorageError::NoSpace { .. }), "{number}: {error}");
        assert!(write_count > 50, "{number}: {write_count}");
        bench.propagation.audit();
        bench.check();
        bench.reopen().unwrap();
        bench.check();
    }
}
