//! The contract suite of raw flash. Call [`check_raw_flash_contract`] from a test with a maker of
//! fresh, equal flash; it writes over it and panics where a rule is broken.
//!
//! 1. What a rule does not promise is not asked for: flash of any geometry, laws and times passes.

mod cuts;

use crate::raw_flash::{
    BLANK, FlashCommand, FlashCompletion, FlashError, FlashInfo, FlashPart, FlashRequest, RawFlash,
};
use nandu_base::{Cause, FixedHashMap, FlashCounters, FlashOperation, Nanos, Ppn, Rng, to_index};
use std::ops::Range;

/// A maker of fresh, equal flash.
pub type MakeFlash<'a> = &'a mut dyn FnMut() -> Box<dyn RawFlash>;

/// Erase blocks that the suite uses at once, if so many are good.
const BLOCK_COUNT: usize = 4;
/// Flash pages of an erase block that it uses.
const INDEX_COUNT: u32 = 8;
/// The most erases in which it tries to wear out an erase block.
const ERASE_COUNT_MAX: u32 = 64;

/// Checks rules 1 to 10 of [`crate::raw_flash`].
///
/// # Panics
/// Where a rule is broken, naming it.
pub fn check_raw_flash_contract(make: MakeFlash<'_>) {
    bad_requests_are_handed_back(make().as_mut());
    a_full_queue_takes_no_more(make().as_mut());
    what_was_not_programmed_is_blank(make().as_mut());
    flash_pages_keep_what_was_programmed(make().as_mut());
    flash_pages_are_programmed_upwards(make().as_mut());
    bits_are_set_by_erases_alone(make().as_mut());
    parts_are_programmed_up_to_the_limit(make().as_mut());
    bad_erase_blocks_are_only_read(make().as_mut());
    erase_blocks_wear_out(make().as_mut());
    requests_of_an_erase_block_act_in_order(make().as_mut());
    time_limits_and_idling_hold(make().as_mut());
    commands_are_counted(make().as_mut());
    cuts::power_cuts_keep_tear_and_undo(make);
    let first = random_trace(make().as_mut());
    assert_eq!(first, random_trace(make().as_mut()), "the same requests end at the same times");
}

/// The first good erase blocks, up to `count`.
fn good_blocks(flash: &dyn RawFlash, count: usize) -> Vec<u32> {
    let all = 0..flash.info().geometry.erase_block_count;
    let good: Vec<u32> = all.filter(|&block| !flash.is_bad(block)).take(count).collect();
    assert!(!good.is_empty(), "no erase block is good");
    good
}

/// How many flash pages of an erase block the suite uses.
fn index_count(info: &FlashInfo) -> u32 {
    info.geometry.flash_pages_per_erase_block.min(INDEX_COUNT)
}

/// Submits one request now and waits for its end; answers how it ended or why it was refused.
fn run(flash: &mut dyn RawFlash, request: FlashRequest) -> Result<FlashCompletion, FlashError> {
    let id = request.id;
    flash.submit(flash.now(), request).map_err(|rejected| {
        assert_eq!(rejected.request.id, id, "rule 10: handed back unchanged");
        assert!(!rejected.to_string().is_empty());
        rejected.error
    })?;
    let completion = flash.next_completion(Nanos::MAX).expect("rule 1: a request completes");
    assert_eq!(completion.id, id, "rule 1: it is the one in flight");
    completion.result.clone().map(|()| completion)
}

/// Whether an erase block stands one more erase than `count`.
fn stands_erase(info: &FlashInfo, count: u32) -> bool {
    info.endurance == 0 || count < info.endurance
}

/// Programs data and spare bytes where there are some, from these first bytes on.
fn program(
    flash: &mut dyn RawFlash,
    flash_page: Ppn,
    (first_byte, data): (u32, &[u8]),
    (first_spare, spare): (u32, &[u8]),
) -> Result<(), FlashError> {
    let request = FlashRequest::program(
        flash_page.0,
        flash_page,
        (!data.is_empty()).then(|| FlashPart::copy_of(first_byte, data)),
        (!spare.is_empty()).then(|| FlashPart::copy_of(first_spare, spare)),
    );
    let completion = run(flash, request)?;
    let FlashCommand::Program { data: back, spare: spare_back, .. } = completion.command else {
        panic!("rule 1: the command of another request came back");
    };
    for (part, sent) in [(back, data), (spare_back, spare)] {
        let bytes = part.map_or_else(Vec::new, |part| part.buffer.to_vec());
        assert_eq!(bytes, sent, "rule 1: the buffer comes back");
    }
    Ok(())
}

/// Reads some bytes of a flash page: those of its data, then those of its spare area.
fn read(
    flash: &mut dyn RawFlash,
    flash_page: Ppn,
    data: Range<u32>,
    spare: Range<u32>,
) -> Result<Vec<u8>, FlashError> {
    let room = |range: &Range<u32>| {
        (!range.is_empty()).then(|| FlashPart::room(range.start, range.end - range.start))
    };
    let request = FlashRequest::read(flash_page.0, flash_page, room(&data), room(&spare));
    bytes_of(run(flash, request)?, data.len() + spare.len())
}

/// What a read delivered.
fn bytes_of(completion: FlashCompletion, count: usize) -> Result<Vec<u8>, FlashError> {
    completion.result?;
    let FlashCommand::Read { data, spare, .. } = completion.command else {
        panic!("rule 1: the command of another request came back");
    };
    let parts = [data, spare].into_iter().flatten();
    let bytes: Vec<u8> = parts.flat_map(|part| part.buffer.to_vec()).collect();
    assert_eq!(bytes.len(), count, "rule 1: the buffers come back");
    Ok(bytes)
}

fn read_whole(flash: &mut dyn RawFlash, flash_page: Ppn) -> Result<Vec<u8>, FlashError> {
    let geometry = flash.info().geometry;
    read(flash, flash_page, 0..geometry.flash_page_bytes, 0..geometry.spare_bytes)
}

fn erase(flash: &mut dyn RawFlash, erase_block: u32) -> Result<(), FlashError> {
    run(flash, FlashRequest::erase(u64::from(erase_block), erase_block)).map(drop)
}

/// Random data and spare area of a whole flash page, one after the other.
fn random_page(info: &FlashInfo, rng: &mut Rng) -> Vec<u8> {
    let geometry = &info.geometry;
    let mut bytes = vec![0; (geometry.flash_page_bytes + geometry.spare_bytes) as usize];
    rng.fill(&mut bytes);
    bytes
}

/// Programs all of a flash page.
fn program_whole(
    flash: &mut dyn RawFlash,
    flash_page: Ppn,
    bytes: &[u8],
) -> Result<(), FlashError> {
    let (data, spare) = bytes.split_at(flash.info().geometry.flash_page_bytes as usize);
    program(flash, flash_page, (0, data), (0, spare))
}

fn blank_page(info: &FlashInfo) -> Vec<u8> {
    vec![BLANK; (info.geometry.flash_page_bytes + info.geometry.spare_bytes) as usize]
}

fn bad_requests_are_handed_back(flash: &mut dyn RawFlash) {
    let geometry = flash.info().geometry;
    let (pages, bytes) = (geometry.flash_page_count(), geometry.flash_page_bytes);
    let part = |first, count| Some(FlashPart::copy_of(first, &vec![0x5A; count]));
    let whole = bytes as usize;
    let cases = [
        FlashRequest::read(1, Ppn(pages), part(0, 1), None),
        FlashRequest::program(2, Ppn(pages), part(0, whole), None),
        FlashRequest::erase(3, geometry.erase_block_count),
        FlashRequest::read(4, Ppn(0), part(1, whole), None),
        FlashRequest::program(5, Ppn(0), part(u32::MAX, whole), None),
        FlashRequest::read(6, Ppn(0), None, part(geometry.spare_bytes, 1)),
        FlashRequest::read(7, Ppn(u64::MAX), part(0, 1), None),
    ];
    let empty = [
        FlashRequest::read(8, Ppn(0), None, None),
        FlashRequest::program(9, Ppn(0), part(0, 0), None),
    ];
    for (request, is_empty) in
        cases.into_iter().map(|case| (case, false)).chain(empty.map(|case| (case, true)))
    {
        let before = format!("{request:?}");
        let rejected = flash.submit(flash.now(), request).expect_err("rule 10: a bad request");
        assert_eq!(format!("{:?}", rejected.request), before, "rule 10: handed back unchanged");
        match (&rejected.request.command, is_empty) {
            (_, true) => assert_eq!(rejected.error, FlashError::EmptyRequest, "rule 10"),
            (_, false) => assert!(
                matches!(rejected.error, FlashError::OutOfRange { .. }),
                "rule 10: {before}: {:?}",
                rejected.error
            ),
        }
    }
    assert_eq!(flash.in_flight(), 0, "rule 10: a rejected request costs nothing");
    assert!(flash.next_completion(Nanos::MAX).is_none(), "rule 10: nor does it complete");
    assert_eq!(flash.counters().commands, FlashCounters::default(), "rule 10: nor is it counted");
}

fn a_full_queue_takes_no_more(flash: &mut dyn RawFlash) {
    let depth = flash.info().queue_depth_max;
    let room = || Some(FlashPart::room(0, 1));
    for id in 0..u64::from(depth) {
        let request = FlashRequest::read(id, Ppn(0), room(), None);
        flash.submit(flash.now(), request).expect("there is room in the queue");
    }
    assert_eq!(flash.in_flight(), depth, "all of them are in flight");
    let request = FlashRequest::read(u64::MAX, Ppn(0), room(), None);
    let rejected = flash.submit(flash.now(), request).expect_err("rule 10: the queue is full");
    assert_eq!(rejected.error, FlashError::QueueFull { queue_depth_max: depth }, "rule 10");
    let mut ids: Vec<u64> = drain(flash).into_iter().map(|completion| completion.id).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..u64::from(depth)), "rule 1: each completes once");
}

/// Fetches all completions and checks rule 2.
fn drain(flash: &mut dyn RawFlash) -> Vec<FlashCompletion> {
    let mut all: Vec<FlashCompletion> = Vec::new();
    let most = flash.in_flight();
    while let Some(completion) = flash.next_completion(Nanos::MAX) {
        let (issued_at, completed_at) = (completion.issued_at, completion.completed_at);
        assert!(completed_at >= issued_at, "rule 2: time runs forwards");
        let last = all.last().map_or(Nanos::ZERO, |last| last.completed_at);
        assert!(completed_at >= last, "rule 2: completions come in order");
        assert!(flash.now() >= completed_at, "rule 3: what was told is the present");
        all.push(completion);
        assert!(all.len() <= to_index(most.into()), "rule 1: more complete than were in flight");
    }
    assert_eq!(all.len(), to_index(most.into()), "rule 1: every request completes");
    assert_eq!(flash.in_flight(), 0, "rule 1: nothing is left");
    all
}

fn what_was_not_programmed_is_blank(flash: &mut dyn RawFlash) {
    let geometry = flash.info().geometry;
    let last = geometry.flash_page_count() - 1;
    let block = good_blocks(flash, 1)[0];
    for flash_page in [geometry.flash_page(block, 0), Ppn(last)] {
        let bytes = read_whole(flash, flash_page).expect("rule 5: blank flash can be read");
        assert_eq!(bytes, blank_page(flash.info()), "rule 5: never written, so it reads as ones");
    }
    let flash_page = geometry.flash_page(block, 0);
    let half = geometry.flash_page_bytes / 2;
    if flash.info().programs_per_erase > 1 && half > 0 {
        program(flash, flash_page, (half, &[0]), (0, &[])).expect("a part may be programmed");
        let mut expected = blank_page(flash.info());
        expected[half as usize] = 0;
        let bytes = read_whole(flash, flash_page).expect("it can be read");
        assert_eq!(bytes, expected, "rule 5: the rest of the flash page stays blank");
    }
}

fn flash_pages_keep_what_was_programmed(flash: &mut dyn RawFlash) {
    let (info, mut rng) = (flash.info().clone(), Rng::new(21));
    let geometry = info.geometry;
    let blocks = good_blocks(flash, BLOCK_COUNT);
    let (mut next_index, mut erase_counts) = (vec![0; blocks.len()], vec![0; blocks.len()]);
    let mut model: FixedHashMap<u64, Vec<u8>> = FixedHashMap::default();
    for _ in 0..200 {
        let slot = to_index(rng.below(blocks.len() as u64));
        let index = next_index[slot];
        if index < index_count(&info) && rng.below(3) > 0 {
            let flash_page = geometry.flash_page(blocks[slot], index);
            let mut bytes = random_page(&info, &mut rng);
            if rng.below(4) == 0 {
                let (data, spare) = bytes.split_at_mut(geometry.flash_page_bytes as usize);
                program(flash, flash_page, (0, data), (0, &[])).expect("its turn has come");
                spare.fill(BLANK);
            } else {
                program_whole(flash, flash_page, &bytes).expect("its turn has come");
            }
            model.insert(flash_page.0, bytes);
            next_index[slot] = index + 1;
        } else if index == index_count(&info) && stands_erase(&info, erase_counts[slot]) {
            erase(flash, blocks[slot]).expect("the erase block is good");
            erase_counts[slot] += 1;
            for index in 0..index_count(&info) {
                model.remove(&geometry.flash_page(blocks[slot], index).0);
            }
            next_index[slot] = 0;
        }
        let index = nandu_base::to_u32(rng.below(index_count(&info).into()));
        let flash_page = geometry.flash_page(blocks[slot], index);
        let expected = model.get(&flash_page.0).cloned().unwrap_or_else(|| blank_page(&info));
        let cut = nandu_base::to_u32(rng.below(geometry.flash_page_bytes.into()));
        let bytes = read(flash, flash_page, cut..geometry.flash_page_bytes, 0..0);
        let data_end = geometry.flash_page_bytes as usize;
        assert_eq!(
            bytes.expect("it can be read"),
            expected[cut as usize..data_end],
            "rules 5 and 6: the data of {flash_page:?} read back"
        );
        if geometry.spare_bytes == 0 {
            continue;
        }
        let spare = read(flash, flash_page, 0..0, 0..geometry.spare_bytes);
        assert_eq!(
            spare.expect("it can be read"),
            expected[data_end..],
            "rules 5 and 6: the spare area of {flash_page:?} read back"
        );
    }
}

fn flash_pages_are_programmed_upwards(flash: &mut dyn RawFlash) {
    let (info, mut rng) = (flash.info().clone(), Rng::new(22));
    if index_count(&info) < 3 {
        return;
    }
    let block = good_blocks(flash, 1)[0];
    let page_at = |index| info.geometry.flash_page(block, index);
    let bytes = random_page(&info, &mut rng);
    program_whole(flash, page_at(1), &bytes).expect("rule 6: gaps are allowed");
    let below = program_whole(flash, page_at(0), &bytes);
    if info.is_ascending {
        let expected = FlashError::ProgramOrder { flash_page: page_at(0).0, next_index: 2 };
        assert_eq!(below, Err(expected), "rule 6: upwards only");
        assert_eq!(read_whole(flash, page_at(0)), Ok(blank_page(&info)), "rule 10: no effect");
    } else {
        assert_eq!(below, Ok(()), "rule 6: in any order");
    }
    program_whole(flash, page_at(2), &bytes).expect("rule 6: upwards");
    erase(flash, block).expect("the erase block is good");
    for index in 0..3 {
        assert_eq!(read_whole(flash, page_at(index)), Ok(blank_page(&info)), "rule 5: erased");
    }
    program_whole(flash, page_at(0), &bytes).expect("rule 6: from the beginning again");
    assert_eq!(read_whole(flash, page_at(0)), Ok(bytes), "it holds what was programmed");
}

fn bits_are_set_by_erases_alone(flash: &mut dyn RawFlash) {
    let info = flash.info().clone();
    let flash_page = info.geometry.flash_page(good_blocks(flash, 1)[0], 0);
    let mut bytes = blank_page(&info);
    bytes.fill(0xF0);
    program_whole(flash, flash_page, &bytes).expect("it is erased");
    let limit = info.programs_per_erase;
    if limit == 1 {
        let expected = FlashError::ProgramLimit { flash_page: flash_page.0, limit };
        assert_eq!(program_whole(flash, flash_page, &bytes), Err(expected), "rule 6: once only");
    } else {
        let expected = FlashError::NotErased { flash_page: flash_page.0 };
        let refused = program(flash, flash_page, (0, &[0xF1]), (0, &[]));
        assert_eq!(refused, Err(expected), "rule 6: no bit is set");
        assert_eq!(read_whole(flash, flash_page), Ok(bytes.clone()), "rule 10: no effect");
        program(flash, flash_page, (0, &[0x70]), (0, &[])).expect("rule 6: bits are cleared");
        bytes[0] = 0x70;
    }
    assert_eq!(read_whole(flash, flash_page), Ok(bytes), "rule 6: it holds what was programmed");
}

fn parts_are_programmed_up_to_the_limit(flash: &mut dyn RawFlash) {
    let info = flash.info().clone();
    let limit = info.programs_per_erase;
    let part_bytes = info.geometry.flash_page_bytes / u32::from(limit);
    let spare_bytes = info.geometry.spare_bytes / u32::from(limit);
    if limit == 1 || part_bytes == 0 || spare_bytes == 0 {
        return;
    }
    let block = good_blocks(flash, 1)[0];
    let flash_page = info.geometry.flash_page(block, 0);
    let (mut rng, mut expected) = (Rng::new(23), blank_page(&info));
    for number in 0..u32::from(limit) {
        let mut bytes = vec![0; (part_bytes + spare_bytes) as usize];
        rng.fill(&mut bytes);
        let (data, spare) = bytes.split_at(part_bytes as usize);
        let (first, first_spare) = (number * part_bytes, number * spare_bytes);
        program(flash, flash_page, (first, data), (first_spare, spare)).expect("rule 6: in part");
        expected[first as usize..][..data.len()].copy_from_slice(data);
        let in_spare = (info.geometry.flash_page_bytes + first_spare) as usize;
        expected[in_spare..][..spare.len()].copy_from_slice(spare);
        assert_eq!(read_whole(flash, flash_page), Ok(expected.clone()), "rule 6: part {number}");
    }
    let refused = program(flash, flash_page, (0, &[0]), (0, &[]));
    let limit_reached = FlashError::ProgramLimit { flash_page: flash_page.0, limit };
    assert_eq!(refused, Err(limit_reached), "rule 6: as often as it may be");
    erase(flash, block).expect("the erase block is good");
    program(flash, flash_page, (0, &[]), (0, &[0])).expect("rule 6: after an erase again");
}

fn bad_erase_blocks_are_only_read(flash: &mut dyn RawFlash) {
    let info = flash.info().clone();
    let Some(erase_block) = (0..info.geometry.erase_block_count).find(|&it| flash.is_bad(it))
    else {
        return;
    };
    let flash_page = info.geometry.flash_page(erase_block, 0);
    let expected = FlashError::BadEraseBlock { erase_block };
    let bytes = blank_page(&info);
    assert_eq!(program_whole(flash, flash_page, &bytes), Err(expected.clone()), "rule 7");
    assert_eq!(erase(flash, erase_block), Err(expected), "rule 7: bad ones are not erased");
    read_whole(flash, flash_page).expect("rule 7: bad ones are read");
}

fn erase_blocks_wear_out(flash: &mut dyn RawFlash) {
    let endurance = flash.info().endurance;
    if !(1..=ERASE_COUNT_MAX).contains(&endurance) {
        return;
    }
    let blocks = good_blocks(flash, 2);
    let bad_before = flash.counters().wear.bad_erase_block_count;
    for _ in 0..endurance {
        erase(flash, blocks[0]).expect("rule 7: it stands so many erases");
    }
    let worn_out = Err(FlashError::WornOut { erase_block: blocks[0] });
    assert_eq!(erase(flash, blocks[0]), worn_out, "rule 7: and no more");
    assert!(flash.is_bad(blocks[0]), "rule 7: it is bad now");
    let wear = flash.counters().wear;
    assert_eq!(wear.bad_erase_block_count, bad_before + 1, "rule 7: it alone");
    assert_eq!(wear.erase_count_max, u64::from(endurance), "erases are counted");
    bad_erase_blocks_are_only_read(flash);
    if let [_, other] = blocks[..] {
        erase(flash, other).expect("rule 7: others are not worn");
    }
}

fn requests_of_an_erase_block_act_in_order(flash: &mut dyn RawFlash) {
    let (info, mut rng) = (flash.info().clone(), Rng::new(24));
    let geometry = info.geometry;
    let at_once = info.queue_depth_max as usize / 4;
    if at_once == 0 {
        return;
    }
    let blocks = good_blocks(flash, BLOCK_COUNT.min(at_once));
    let mut expected = Vec::new();
    for (&block, id) in blocks.iter().zip((0..).step_by(4)) {
        let flash_page = geometry.flash_page(block, 0);
        let bytes = random_page(&info, &mut rng);
        let (data, spare) = bytes.split_at(geometry.flash_page_bytes as usize);
        let copy = |part: &[u8]| (!part.is_empty()).then(|| FlashPart::copy_of(0, part));
        let (data, spare) = (copy(data), copy(spare));
        let room = |id| {
            let data = Some(FlashPart::room(0, geometry.flash_page_bytes));
            let spare_bytes = geometry.spare_bytes;
            let spare = (spare_bytes > 0).then(|| FlashPart::room(0, spare_bytes));
            FlashRequest::read(id, flash_page, data, spare)
        };
        let requests = [
            FlashRequest::program(id, flash_page, data, spare),
            room(id + 1),
            FlashRequest::erase(id + 2, block),
            room(id + 3),
        ];
        for request in requests {
            flash.submit(flash.now(), request).expect("each is legal after the one before");
        }
        expected.extend([None, Some(bytes), None, Some(blank_page(&info))]);
    }
    let mut seen = vec![false; expected.len()];
    for completion in drain(flash) {
        let id = to_index(completion.id);
        assert!(!std::mem::replace(&mut seen[id], true), "rule 1: {id} completed twice");
        completion.result.as_ref().expect("nothing was torn or worn");
        if let Some(bytes) = &expected[id] {
            let found = bytes_of(completion, bytes.len());
            assert_eq!(found.as_ref(), Ok(bytes), "rule 4: in the order of submission");
        }
    }
}

fn time_limits_and_idling_hold(flash: &mut dyn RawFlash) {
    let (info, issued_at) = (flash.info().clone(), flash.now());
    let flash_page = info.geometry.flash_page(good_blocks(flash, 1)[0], 0);
    let part = Some(FlashPart::copy_of(0, &vec![0; info.geometry.flash_page_bytes as usize]));
    let request = FlashRequest::program(1, flash_page, part, None);
    flash.submit(issued_at, request).expect("it is erased");
    let early = flash.next_completion(issued_at);
    assert!(early.is_none_or(|it| it.completed_at <= issued_at), "rule 2: not before its time");
    for completion in drain(flash) {
        assert!(completion.completed_at > issued_at, "a program takes time");
        assert_eq!(completion.issued_at, issued_at, "it was issued then");
    }
    let target = flash.now() + Nanos::from_millis(2);
    assert!(flash.idle_until(target) >= target, "idle time passes");
    assert!(flash.now() >= target, "and stays");
}

fn commands_are_counted(flash: &mut dyn RawFlash) {
    let info = flash.info().clone();
    let block = good_blocks(flash, 1)[0];
    let flash_page = info.geometry.flash_page(block, 0);
    let erased = flash.counters().wear.erase_count_sum;
    let part = |byte| Some(FlashPart::copy_of(0, &[byte]));
    let mut expected = FlashCounters::default();
    let mut issue = |request: FlashRequest, operation, cause| {
        run(flash, request.caused_by(cause)).expect("it is legal");
        expected.count(operation, cause);
    };
    issue(
        FlashRequest::program(1, flash_page, part(0xF0), None),
        FlashOperation::Program,
        Cause::Log,
    );
    if info.programs_per_erase > 1 {
        let request = FlashRequest::program(2, flash_page, part(0), None);
        issue(request, FlashOperation::PartialProgram, Cause::Differential);
    }
    issue(FlashRequest::read(3, flash_page, part(0), None), FlashOperation::Read, Cause::Host);
    if info.geometry.spare_bytes > 0 {
        let request = FlashRequest::read(4, flash_page, None, part(0));
        issue(request, FlashOperation::SpareRead, Cause::Recovery);
    }
    issue(FlashRequest::erase(5, block), FlashOperation::Erase, Cause::Cleaning);
    let counters = flash.counters();
    assert_eq!(counters.commands, expected, "each command is counted once, under its cause");
    assert_eq!(counters.wear.erase_count_sum, erased + 1, "and wears once");
}

/// Requests on several erase blocks at once; what came back, with its times.
fn random_trace(flash: &mut dyn RawFlash) -> Vec<(u64, Nanos, Nanos)> {
    let (info, mut rng) = (flash.info().clone(), Rng::new(25));
    let blocks = good_blocks(flash, 2 * BLOCK_COUNT);
    let (mut next_index, mut erase_counts) = (vec![0; blocks.len()], vec![0; blocks.len()]);
    let mut trace = Vec::new();
    let mut note = |it: &FlashCompletion| trace.push((it.id, it.issued_at, it.completed_at));
    for id in 0..200 {
        if flash.in_flight() == info.queue_depth_max.min(8) {
            note(&flash.next_completion(Nanos::MAX).expect("some are in flight"));
        }
        let slot = to_index(rng.below(blocks.len() as u64));
        let index = &mut next_index[slot];
        let request = match rng.below(4) {
            0 => {
                let flash_page = info.geometry.flash_page(blocks[slot], 0);
                FlashRequest::read(id, flash_page, Some(FlashPart::room(0, 1)), None)
            }
            _ if *index < index_count(&info) => {
                let flash_page = info.geometry.flash_page(blocks[slot], *index);
                *index += 1;
                FlashRequest::program(id, flash_page, Some(FlashPart::copy_of(0, &[1])), None)
            }
            _ if stands_erase(&info, erase_counts[slot]) => {
                (*index, erase_counts[slot]) = (0, erase_counts[slot] + 1);
                FlashRequest::erase(id, blocks[slot])
            }
            _ => continue,
        };
        flash.submit(flash.now(), request).expect("it is legal");
    }
    drain(flash).iter().for_each(note);
    trace
}
