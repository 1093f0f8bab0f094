//! The three rankings beside each other, and what they move.

use super::*;
use crate::testing::{GRANT_BYTES, memory_io, store, store_with};
use crate::{RecordStream, Store, Vector};
use nandu_base::Rng;
use proptest::prelude::*;
use proptest::sample::Index;

/// A list over all elements in random order, and its head.
fn random_list(count: u64, rng: &mut Rng) -> (Vec<u64>, u64) {
    let mut order: Vec<u64> = (0..count).collect();
    rng.shuffle(&mut order);
    let mut successors = vec![END; to_index(count)];
    for pair in order.windows(2) {
        successors[to_index(pair[0])] = pair[1];
    }
    (successors, order.first().copied().unwrap_or_default())
}

fn stored(store: &Store, values: &[u64]) -> Vector<u64> {
    let mut writer = Vector::writer(store).unwrap();
    values.iter().for_each(|&value| writer.push(value).unwrap());
    writer.finish().unwrap()
}

fn loaded(vector: &Vector<u64>) -> Vec<u64> {
    let mut scanner = vector.scanner().unwrap();
    std::iter::from_fn(|| scanner.next_record().unwrap()).collect()
}

/// The least memory for blocks of 512 bytes and so many requests in flight.
const fn least_bytes(in_flight: u64) -> u64 {
    2 * (in_flight + 1 + 4) * 512
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn all_rankings_agree(
        count in 0_u64..6000, more in 0_u64..4096, in_flight in 0_u32..3, seed: u64,
    ) {
        let store = store(512, 1, in_flight);
        let mut rng = Rng::new(seed);
        let (successors, head) = random_list(count, &mut rng);
        let expected = rank_in_memory(&successors, head).unwrap();
        let vector = stored(&store, &successors);
        let bytes = least_bytes(u64::from(in_flight)) + more;
        let ranks = rank(&vector, head, bytes, &mut rng).unwrap();
        prop_assert_eq!(loaded(&ranks), &expected[..]);
        ranks.audit();
        drop(ranks);
        prop_assert_eq!(store.used_blocks(), vector.block_count());
        prop_assert!(store.grant().peak_bytes() <= bytes.max(6 * 512));

        let mut paged = vector.paged(3).unwrap();
        let mut walked = vec![END; expected.len()];
        let note = |element, rank| walked[to_index(element)] = rank;
        let visited = rank_paged(&mut paged, head, note);
        prop_assert_eq!(visited, Ok(count));
        prop_assert_eq!(walked, expected);
        drop(paged);
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
    }

    #[test]
    fn what_is_no_list_is_an_error_of_all(
        count in 2_u64..1500, element: Index, target: Index, kind in 0_u8..3, seed: u64,
    ) {
        let store = store(512, 1, 1);
        let mut rng = Rng::new(seed);
        let (mut successors, head) = random_list(count, &mut rng);
        let element = element.index(successors.len());
        let other = match kind {
            // A circle, or two elements before one; out of range; an end within.
            0 => target.index(successors.len()) as u64,
            1 => count + target.index(1000) as u64,
            _ => END,
        };
        prop_assume!(successors[element] != other);
        successors[element] = other;
        prop_assert!(rank_in_memory(&successors, head).is_err());
        let vector = stored(&store, &successors);
        let error = rank(&vector, head, least_bytes(1), &mut rng).unwrap_err();
        prop_assert!(error.to_string().contains("element"), "{}", error);
        prop_assert_eq!(store.used_blocks(), vector.block_count());
        drop(vector);
        prop_assert_eq!(store.grant().free_bytes(), GRANT_BYTES);
    }
}

#[test]
fn many_circles_beside_a_list_end_in_an_error() {
    // Every element but the head follows itself, or they follow each other in pairs.
    for pairs in [false, true] {
        let store = store(512, 1, 0);
        let mut successors: Vec<u64> =
            (0..5001_u64).map(|n| if pairs { ((n - n.min(1)) ^ 1) + 1 } else { n }).collect();
        successors[0] = END;
        let vector = stored(&store, &successors);
        let error = rank(&vector, 0, least_bytes(0), &mut Rng::new(1)).unwrap_err();
        assert!(error.to_string().contains("circle"), "{error}");
    }
}

#[test]
fn the_walk_misses_nearly_always_and_contraction_moves_a_few_sorts() {
    let (block_bytes, bytes) = (8192_u32, 40 * 8192);
    let store = store_with(block_bytes, 1, 1, 1 << 20);
    let count = 100_000;
    let mut rng = Rng::new(11);
    let (successors, head) = random_list(count, &mut rng);
    let vector = stored(&store, &successors);
    let before = store.counts();
    let ranks = rank(&vector, head, bytes, &mut rng).unwrap();
    assert_eq!(loaded(&ranks), rank_in_memory(&successors, head).unwrap());
    let moved = store.counts().since(&before);
    // A round of n arcs of 24 bytes moves 8 times their blocks, as many again being read as
    // written, and the next one has 3/4 as many: 32 times those of the first. What fits into memory
    // is not moved.
    let arc_blocks = count * 24 / u64::from(block_bytes);
    let total = moved.read_blocks + moved.write_blocks;
    assert!(total < 32 * arc_blocks, "{total} of {arc_blocks} blocks of arcs");
    drop(ranks);

    // As much memory holds 40 of 98 blocks: three of five elements miss.
    let mut paged = vector.paged(39).unwrap();
    rank_paged(&mut paged, head, |_, _| {}).unwrap();
    let share = paged.miss_count() * 100 / count;
    assert!((55..65).contains(&share), "{share} %");
    assert!(paged.miss_count() > 5 * total);
}

#[test]
fn too_little_memory_is_refused() {
    let store = store(512, 1, 1);
    let vector = stored(&store, &[1, END]);
    let error = rank(&vector, 0, least_bytes(1) - 1, &mut Rng::new(1)).unwrap_err();
    assert!(error.to_string().contains("list ranking needs"), "{error}");
    assert!(rank(&vector, 2, least_bytes(1), &mut Rng::new(1)).is_err());
    let ranks = rank(&vector, 0, least_bytes(1), &mut Rng::new(1)).unwrap();
    assert_eq!(loaded(&ranks), [0, 1]);
}

#[test]
fn a_ranking_that_ends_between_any_two_rounds_goes_on() {
    let (successors, head) = random_list(6000, &mut Rng::new(4));
    let expected = rank_in_memory(&successors, head).unwrap();
    let settings = crate::Settings { block_bytes: 512, in_flight: 1 };
    let io = [memory_io(16 << 20), memory_io(16 << 20)];
    let grant = || crate::Grant::new(GRANT_BYTES);
    let mut kept: Option<(crate::KeptStore, KeptRanking)> = None;
    let mut ends = 0;
    let (store, ranks) = loop {
        let store = match &kept {
            None => Store::new(&io, settings, grant()).unwrap(),
            Some((store, ranking)) => {
                let what = (store, &ranking.vectors()[..]);
                Store::resume(&io, settings, grant(), std::sync::Arc::default(), what).unwrap()
            }
        };
        let before = kept.as_ref().map(|kept| kept.1.clone());
        // The next end comes in the round after the first that this one does.
        let (mut note, mut note_count) = (None, 0);
        let watch = |ranking: &KeptRanking| {
            note_count += 1;
            match note_count {
                1 => Ok(()),
                2 => {
                    note = Some((store.keep()?, ranking.clone()));
                    store.hold();
                    store.audit();
                    Ok(())
                }
                _ => Err(ExternalError::Cancelled),
            }
        };
        let mut rng = Rng::new(9);
        let ranked = match &before {
            None => {
                let vector = stored(&store, &successors);
                rank_watched(&vector, head, least_bytes(1), &mut rng, watch)
            }
            Some(ranking) => resume_ranking(&store, ranking, least_bytes(1), &mut rng, watch),
        };
        match ranked {
            Ok(ranks) => break (store, ranks),
            Err(error) => assert_eq!(error, ExternalError::Cancelled),
        }
        kept = note;
        ends += 1;
    };
    assert!(ends > 5, "{ends}");
    assert_eq!(loaded(&ranks), expected);
    store.let_go();
}

#[test]
fn a_ranking_that_ends_before_its_first_note_goes_on_with_the_one_before() {
    let (successors, head) = random_list(1500, &mut Rng::new(4));
    let expected = rank_in_memory(&successors, head).unwrap();
    let settings = crate::Settings { block_bytes: 512, in_flight: 1 };
    let io = [memory_io(16 << 20)];
    let bytes = least_bytes(1);
    // After each round there, and each back, it ends, and so does who goes on, twice.
    for round in (1_u64..).step_by(3) {
        let store = Store::new(&io, settings, crate::Grant::new(GRANT_BYTES)).unwrap();
        let (mut kept, mut rounds) = (None, 0);
        let vector = stored(&store, &successors);
        let ended = rank_watched(&vector, head, bytes, &mut Rng::new(9), |ranking| {
            rounds += 1;
            if rounds < round {
                return Ok(());
            }
            kept = Some((store.keep()?, ranking.clone()));
            store.hold();
            Err(ExternalError::Cancelled)
        });
        drop(vector);
        drop(store);
        let Some((kept_store, ranking)) = kept else {
            assert!(ended.is_ok() && round > 8, "{round}");
            break;
        };
        for is_last in [false, false, true] {
            let (grant, stop) = (crate::Grant::new(GRANT_BYTES), std::sync::Arc::default());
            let kept = (&kept_store, &ranking.vectors()[..]);
            let store = Store::resume(&io, settings, grant, stop, kept).unwrap();
            let mut rounds = 0;
            let ranked = resume_ranking(&store, &ranking, bytes, &mut Rng::new(9), |_| {
                rounds += 1;
                // The first word is what was kept; what comes then has read it away.
                if is_last || rounds < 3 { Ok(()) } else { Err(ExternalError::Cancelled) }
            });
            if let Ok(ranks) = ranked {
                assert!(loaded(&ranks) == expected, "{round}");
                if is_last {
                    store.let_go();
                } else {
                    // As if it had ended when the ranks were there: what was kept stays.
                    drop(ranks);
                }
            }
        }
    }
}

#[test]
fn a_walk_in_memory_looks_at_whether_to_stop_and_says_how_far_it_is() {
    let count = 20_000;
    let (successors, head) = random_list(count, &mut Rng::new(3));
    let store = store(512, 1, 1);
    let vector = stored(&store, &successors);
    rank(&vector, head, 256 << 10, &mut Rng::new(1)).unwrap();
    assert_eq!(store.worked_bytes(), count / 4096 * 4096 * 8);
}
