//! Power cuts of raw flash (rules 8 and 9): the same requests, cut at every end and between.
//!
//! ```text
//!   uncut   ├── first ──┼── second ──┼── third ──┤      by erase block
//!   cut at            done  │  torn or unchanged │ unchanged
//! ```
//!
//! 1. Over all cuts some program and some erase have to be torn: flash that is never torn is none.

use super::{
    MakeFlash, blank_page, drain, erase, good_blocks, program, program_whole, random_page, read,
    read_whole, run, stands_erase,
};
use crate::raw_flash::{FlashError, FlashInfo, FlashPart, FlashRequest, RawFlash};
use nandu_base::{Nanos, Rng, to_index};

/// What is done to an erase block, by index and with what the flash page holds afterwards.
#[derive(Clone, Debug)]
enum Step {
    Erase,
    /// All of the flash page.
    Program(u32, Vec<u8>),
    /// The second half of its data.
    SecondHalf(u32, Vec<u8>),
}

/// What is asked of one erase block before and at the moment of trouble.
#[derive(Clone, Debug)]
struct Story {
    erase_block: u32,
    /// By index; what it holds in the beginning.
    held: Vec<Vec<u8>>,
    steps: Vec<Step>,
}

/// How many programs and erases were found torn.
#[derive(Clone, Copy, Debug, Default)]
struct Torn {
    program_count: u32,
    erase_count: u32,
}

/// Checks rules 8 and 9.
pub(super) fn power_cuts_keep_tear_and_undo(make: MakeFlash<'_>) {
    let mut flash = make();
    let Some(stories) = stories(flash.as_ref()) else { return };
    let begun_at = begin(flash.as_mut(), &stories);
    let mut done_at: Vec<(u64, Nanos)> =
        drain(flash.as_mut()).iter().map(|it| (it.id, it.completed_at)).collect();
    done_at.sort_unstable();
    let done_at: Vec<Nanos> = done_at.into_iter().map(|(_, at)| at).collect();
    let mut cuts = vec![begun_at];
    let mut first = 0;
    for story in &stories {
        let mut last = begun_at;
        for &at in &done_at[first..first + story.steps.len()] {
            cuts.extend([Nanos(last.0.midpoint(at.0)), Nanos(at.0 - 1), at]);
            last = at;
        }
        first += story.steps.len();
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut torn = Torn::default();
    for cut in cuts {
        let mut flash = make();
        cut_at(flash.as_mut(), (&stories, &done_at), cut, &mut torn);
    }
    assert!(torn.program_count > 0, "rule 8: no cut tore a program");
    assert!(torn.erase_count > 0, "rule 8: no cut tore an erase");
}

/// What happens to the first good erase blocks; nothing where there is too little flash for it.
fn stories(flash: &dyn RawFlash) -> Option<Vec<Story>> {
    let (info, mut rng) = (flash.info().clone(), Rng::new(26));
    let blocks = good_blocks(flash, 3);
    let is_small = info.geometry.flash_pages_per_erase_block < 4 || info.queue_depth_max < 11;
    if is_small || !stands_erase(&info, 2) {
        return None;
    }
    let mut page = || random_page(&info, &mut rng);
    let (blank, half_page) = (blank_page(&info), first_half(&info, &page()));
    let mut of_block = Vec::new();
    let held = vec![page(), page(), page(), blank.clone()];
    let steps = vec![Step::Erase, Step::Program(0, page()), Step::Program(1, page())];
    of_block.push((held, steps));
    let held = vec![blank.clone(); 4];
    let programs = (0..4).map(|index| Step::Program(index, page())).collect();
    of_block.push((held, programs));
    let held = vec![page(), half_page.clone(), blank.clone(), blank];
    let steps = vec![Step::Program(2, page()), Step::Program(3, page()), Step::Erase];
    of_block.push((held, steps));
    if info.programs_per_erase > 1 {
        let (_, steps) = of_block.last_mut().expect("one was just put there");
        steps.insert(0, Step::SecondHalf(1, second_half(&info, &half_page, &page())));
    }
    let stories = blocks.into_iter().zip(of_block);
    let story = |(erase_block, (held, steps))| Story { erase_block, held, steps };
    Some(stories.map(story).collect())
}

/// The first half of the data and the spare area of `page`, the rest blank.
fn first_half(info: &FlashInfo, page: &[u8]) -> Vec<u8> {
    let mut bytes = blank_page(info);
    let half = info.geometry.flash_page_bytes as usize / 2;
    bytes[..half].copy_from_slice(&page[..half]);
    let data_bytes = info.geometry.flash_page_bytes as usize;
    bytes[data_bytes..].copy_from_slice(&page[data_bytes..]);
    bytes
}

/// `held` with the second half of the data of `page`.
fn second_half(info: &FlashInfo, held: &[u8], page: &[u8]) -> Vec<u8> {
    let mut bytes = held.to_vec();
    let data_bytes = info.geometry.flash_page_bytes as usize;
    bytes[data_bytes / 2..data_bytes].copy_from_slice(&page[data_bytes / 2..data_bytes]);
    bytes
}

/// Prepares what the stories begin with, then submits all of their steps; answers when.
fn begin(flash: &mut dyn RawFlash, stories: &[Story]) -> Nanos {
    let info = flash.info().clone();
    let data_bytes = info.geometry.flash_page_bytes as usize;
    for story in stories {
        for (index, held) in (0..).zip(&story.held) {
            let flash_page = info.geometry.flash_page(story.erase_block, index);
            if *held == blank_page(&info) {
                continue;
            }
            let (data, spare) = held.split_at(data_bytes);
            let is_half = story.is_half(index);
            let count = if is_half { data_bytes / 2 } else { data_bytes };
            program(flash, flash_page, (0, &data[..count]), (0, spare)).expect("it is blank");
        }
    }
    let now = flash.now();
    let mut id = 0;
    for story in stories {
        for step in &story.steps {
            let request = step.request(id, &info, story.erase_block);
            flash.submit(now, request).expect("each is legal after the one before");
            id += 1;
        }
    }
    now
}

impl Story {
    /// Whether a step programs the second half of this flash page.
    fn is_half(&self, index: u32) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::SecondHalf(half, _) if *half == index))
    }

    /// What the flash pages hold after the first `count` steps.
    fn after(&self, info: &FlashInfo, count: usize) -> Vec<Vec<u8>> {
        let mut held = self.held.clone();
        for step in &self.steps[..count] {
            match step {
                Step::Erase => held.fill(blank_page(info)),
                Step::Program(index, page) | Step::SecondHalf(index, page) => {
                    held[*index as usize].clone_from(page);
                }
            }
        }
        held
    }
}

impl Step {
    /// Which flash page it programs.
    const fn index(&self) -> Option<u32> {
        match self {
            Self::Erase => None,
            Self::Program(index, _) | Self::SecondHalf(index, _) => Some(*index),
        }
    }

    fn request(&self, id: u64, info: &FlashInfo, erase_block: u32) -> FlashRequest {
        let data_bytes = info.geometry.flash_page_bytes as usize;
        match self {
            Self::Erase => FlashRequest::erase(id, erase_block),
            Self::Program(index, page) => {
                let (data, spare) = page.split_at(data_bytes);
                let data = Some(FlashPart::copy_of(0, data));
                let spare = (!spare.is_empty()).then(|| FlashPart::copy_of(0, spare));
                let flash_page = info.geometry.flash_page(erase_block, *index);
                FlashRequest::program(id, flash_page, data, spare)
            }
            Self::SecondHalf(index, page) => {
                let half = &page[data_bytes / 2..data_bytes];
                let part = FlashPart::copy_of(info.geometry.flash_page_bytes / 2, half);
                let flash_page = info.geometry.flash_page(erase_block, *index);
                FlashRequest::program(id, flash_page, Some(part), None)
            }
        }
    }
}

/// One run that is cut at `cut`, and what is found then.
fn cut_at(
    flash: &mut dyn RawFlash,
    (stories, done_at): (&[Story], &[Nanos]),
    cut: Nanos,
    torn: &mut Torn,
) {
    let info = flash.info().clone();
    begin(flash, stories);
    flash.power_cut(cut);
    let mut seen = vec![false; done_at.len()];
    for completion in drain(flash) {
        let id = to_index(completion.id);
        assert!(!std::mem::replace(&mut seen[id], true), "rule 1: {id} completed twice");
        let expected = match done_at[id] <= cut {
            true => Ok(()),
            false => Err(FlashError::PowerLost),
        };
        assert_eq!(completion.result, expected, "rule 8: {id}, done at {}, at {cut}", done_at[id]);
        assert!(completion.completed_at <= cut, "rule 8: it ends with the power");
    }
    assert!(seen.iter().all(|&seen| seen), "rule 8: everything in flight ends");
    let block = stories[0].erase_block;
    let request = FlashRequest::erase(99, block);
    assert_eq!(run(flash, request).map(drop), Err(FlashError::PowerLost), "rule 8: it is off");
    flash.power_on(flash.now());
    let mut first = 0;
    for story in stories {
        let ends = &done_at[first..first + story.steps.len()];
        let done_count = ends.iter().filter(|&&at| at <= cut).count();
        check_story(flash, &info, (story, done_count), torn);
        first += story.steps.len();
    }
}

/// What an erase block holds after a cut, and that it goes on.
fn check_story(
    flash: &mut dyn RawFlash,
    info: &FlashInfo,
    (story, done_count): (&Story, usize),
    torn: &mut Torn,
) {
    let (block, held) = (story.erase_block, story.after(info, done_count));
    let rest = &story.steps[done_count..];
    let torn_indices: Vec<u32> = match rest.iter().any(|step| matches!(step, Step::Erase)) {
        true if is_erase_torn(flash, info, block) => {
            torn.erase_count += 1;
            (0..4).collect()
        }
        _ => {
            let is_torn = |step: &&Step| is_program_torn(flash, info, (block, step), &held);
            rest.iter().filter(is_torn).filter_map(Step::index).collect()
        }
    };
    if torn_indices.len() < 4 {
        torn.program_count += nandu_base::to_u32(torn_indices.len() as u64);
    }
    for (index, held) in (0..).zip(&held) {
        let is_partner = |torn: &u32| info.has_paired_pages && torn ^ 1 == index;
        if torn_indices.iter().any(|torn| *torn == index || is_partner(torn)) {
            continue;
        }
        let found = read_whole(flash, info.geometry.flash_page(block, index));
        let count = story.steps.len();
        let what = format!("rule 8: flash page {index} after {done_count} of {count} requests");
        assert_eq!(found.as_ref(), Ok(held), "{what}");
    }
    erase(flash, block).expect("rule 9: an erase helps");
    let mut rng = Rng::new(27);
    for index in 0..2 {
        let flash_page = info.geometry.flash_page(block, index);
        let page = random_page(info, &mut rng);
        program_whole(flash, flash_page, &page).expect("rule 9: it may be programmed again");
        assert_eq!(read_whole(flash, flash_page), Ok(page), "rule 9: and holds that");
    }
}

/// Whether the erase block is torn, as a whole.
fn is_erase_torn(flash: &mut dyn RawFlash, info: &FlashInfo, erase_block: u32) -> bool {
    let mut is_torn = |index| {
        let flash_page = info.geometry.flash_page(erase_block, index);
        read_whole(flash, flash_page) == Err(FlashError::Torn { flash_page: flash_page.0 })
    };
    if !(0..4).all(&mut is_torn) {
        return false;
    }
    let flash_page = info.geometry.flash_page(erase_block, 0);
    let refused = program_whole(flash, flash_page, &blank_page(info));
    let expected = FlashError::TornEraseBlock { erase_block };
    assert_eq!(refused, Err(expected), "rule 9: erase it first");
    true
}

/// Whether the flash page of a program that was not done is torn; then only what it programmed.
fn is_program_torn(
    flash: &mut dyn RawFlash,
    info: &FlashInfo,
    (erase_block, step): (u32, &Step),
    held: &[Vec<u8>],
) -> bool {
    let (Step::Program(index, page) | Step::SecondHalf(index, page)) = step else { return false };
    let flash_page = info.geometry.flash_page(erase_block, *index);
    let expected = FlashError::Torn { flash_page: flash_page.0 };
    if read_whole(flash, flash_page) != Err(expected.clone()) {
        return false;
    }
    assert_eq!(program_whole(flash, flash_page, page), Err(expected), "rule 9: erase it first");
    if matches!(step, Step::SecondHalf(..)) {
        let data_bytes = info.geometry.flash_page_bytes;
        let first = read(flash, flash_page, 0..data_bytes / 2, 0..info.geometry.spare_bytes);
        let before = &held[*index as usize];
        let mut expected = before[..data_bytes as usize / 2].to_vec();
        expected.extend(&before[data_bytes as usize..]);
        assert_eq!(first, Ok(expected), "rule 9: what was not being programmed stays");
    }
    true
}
