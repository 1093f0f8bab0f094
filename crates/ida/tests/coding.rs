//! Any m of n fragments give back the rest: exhaustively up to eight fragments, by property beyond;
//! updates, checksums, and errors that name what is lost.

use nandu_ida::{
    Code, Dispersal, FragmentSet, HEADER_BYTES, IdaError, Kernel, Matrix, Reconstructor, checksum,
};
use proptest::prelude::*;

const MATRICES: [Matrix; 2] = [Matrix::Cauchy, Matrix::Vandermonde];

/// Bytes without a pattern, the same for the same seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Data of `code` and all n fragments.
fn encoded(code: &Code, length: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let data: Vec<Vec<u8>> = (0..code.m() as u64).map(|seed| noise(seed, length)).collect();
    let range = code.coded_fragments();
    let mut fragments: Vec<Vec<u8>> = data[..range.start].to_vec();
    fragments.resize(code.n(), vec![0xA5; length]);
    code.encode(&data, &mut fragments[range]).expect("lists that fit");
    (data, fragments)
}

/// Loses all but `present` and checks that everything comes back.
fn check_recovery(
    reconstructor: &mut Reconstructor,
    data: &[Vec<u8>],
    fragments: &[Vec<u8>],
    present: FragmentSet,
) {
    let code = reconstructor.code().clone();
    let mut damaged = fragments.to_vec();
    for lost in FragmentSet::first(code.n()).without(&present).iter() {
        damaged[usize::from(lost)].fill(0x5A);
    }
    reconstructor.reconstruct(&mut damaged, present).expect("enough fragments");
    assert!(damaged == fragments, "{:?} from {present}", code.matrix());

    let decoder = code.decoder(present, FragmentSet::first(code.m())).expect("enough fragments");
    decoder.audit();
    let sources: Vec<&Vec<u8>> =
        decoder.sources().iter().map(|&source| &fragments[usize::from(source)]).collect();
    let mut decoded = vec![vec![0; data[0].len()]; code.m()];
    decoder.decode(&sources, &mut decoded).expect("lists that fit");
    assert!(decoded == data, "{:?} from {present}", code.matrix());
}

#[test]
fn every_set_of_m_or_more_fragments_decodes_up_to_eight_fragments() {
    for matrix in MATRICES {
        for n in 1..=8_usize {
            for m in 1..=n {
                let code = Code::new(m, n, matrix).unwrap();
                code.audit();
                let (data, fragments) = encoded(&code, 37);
                let mut reconstructor = Reconstructor::new(code, 4);
                for chosen in 0_u32..1 << n {
                    let all = FragmentSet::first(n);
                    let present: FragmentSet =
                        all.iter().filter(|number| chosen >> number & 1 == 1).collect();
                    if present.count() >= m {
                        check_recovery(&mut reconstructor, &data, &fragments, present);
                    } else {
                        let before = fragments.clone();
                        let error = reconstructor.reconstruct(&mut fragments.clone(), present);
                        let lost = all.without(&present);
                        let damaged = FragmentSet::EMPTY;
                        assert_eq!(
                            error,
                            Err(IdaError::TooFewFragments { m, lost, damaged, left: present })
                        );
                        assert_eq!(before, fragments);
                    }
                }
                reconstructor.audit();
            }
        }
    }
}

#[test]
fn plain_fragments_are_the_data_and_one_spare_is_the_exclusive_or() {
    let code = Code::new(3, 4, Matrix::Cauchy).unwrap();
    let (data, fragments) = encoded(&code, 1000);
    assert_eq!(fragments[..3], data);
    let sum = |byte: usize| data[0][byte] ^ data[1][byte] ^ data[2][byte];
    assert!((0..1000).all(|byte| fragments[3][byte] == sum(byte)));
    for matrix in MATRICES {
        let (data, fragments) = encoded(&Code::new(1, 4, matrix).unwrap(), 10);
        assert!(fragments.iter().all(|fragment| *fragment == data[0]), "m = 1 is mirroring");
    }
}

#[test]
fn codes_as_wide_as_can_be_decode() {
    for (m, n, matrix) in [
        (1, 255, Matrix::Cauchy),
        (40, 255, Matrix::Cauchy),
        (127, 255, Matrix::Vandermonde),
        (254, 255, Matrix::Cauchy),
        (255, 255, Matrix::Vandermonde),
    ] {
        let code = Code::new(m, n, matrix).unwrap();
        let (data, fragments) = encoded(&code, 70);
        let last: FragmentSet = FragmentSet::first(n).iter().skip(n - m).collect();
        check_recovery(&mut Reconstructor::new(code, 1), &data, &fragments, last);
    }
}

#[test]
fn shapes_that_no_code_has_are_refused() {
    for (m, n) in [(0, 0), (0, 4), (5, 4), (4, 256), (300, 300)] {
        assert_eq!(Code::new(m, n, Matrix::Cauchy), Err(IdaError::Shape { m, n }));
    }
    let foreign = Kernel::ALL.into_iter().find(|kernel| !kernel.is_available()).unwrap();
    let code = Code::new(2, 3, Matrix::Cauchy).unwrap();
    let error = code.with_kernel(foreign).unwrap_err();
    assert_eq!(error, IdaError::Kernel(foreign));
    let told = format!("cannot run the kernel {}; it can run scalar", foreign.name());
    assert!(error.to_string().contains(&told), "{error}");
}

#[test]
fn lists_that_do_not_fit_are_refused_before_anything_is_written() {
    let code = Code::new(2, 4, Matrix::Cauchy).unwrap();
    let mut coded = [vec![9; 8], vec![9; 7]];
    let text = |result: Result<(), IdaError>| result.unwrap_err().to_string();
    assert_eq!(
        text(code.encode(&[[0; 8]; 3], &mut coded)),
        "ida: data holds 3 fragments; this code needs 2 there"
    );
    assert_eq!(
        text(code.encode(&[[0; 8]; 2], &mut coded)),
        "ida: coded[1] has 7 bytes, but 8 are expected; pad all fragments to one length"
    );
    assert_eq!(
        text(code.update(2, 0, &[1], &[2], &mut coded)),
        "ida: there is no fragment 2; take one below 2"
    );
    assert_eq!(
        text(code.update(1, 6, &[1; 2], &[2; 2], &mut coded)),
        "ida: a part of 2 bytes at 6 ends behind its fragment of 7 bytes; shorten it"
    );
    assert!(text(code.update(1, usize::MAX, &[1], &[2], &mut coded)).contains("ends behind"));
    assert!(text(code.update(0, 0, &[1], &[2, 3], &mut coded)).contains("[old, new][1] has 2"));
    assert_eq!(
        text(code.update_fragment(1, 0, &[1], &mut [1])),
        "ida: fragment 1 is plain data; write the new bytes there"
    );
    assert!(coded.iter().flatten().all(|&byte| byte == 9));
    let members = [0, 1, 4].into_iter().collect();
    let error = code.rebuilder(members, FragmentSet::EMPTY).unwrap_err();
    assert_eq!(error, IdaError::FragmentNumber { number: 4, limit: 4 });
}

#[test]
fn two_failures_with_one_spare_are_an_error_that_names_them() {
    let code = Code::new(3, 4, Matrix::Cauchy).unwrap();
    let (_, fragments) = encoded(&code, 64);
    let present = [1, 2].into_iter().collect();
    let error = Reconstructor::new(code, 1).reconstruct(&mut fragments.clone(), present);
    assert_eq!(
        error.unwrap_err().to_string(),
        "ida: fragments 0, 3 are lost; 2 of the 3 needed are left (1, 2); provide 1 more"
    );
}

#[test]
fn one_flipped_byte_is_found_and_treated_as_lost() {
    let code = Code::new(3, 5, Matrix::Cauchy).unwrap();
    let (_, fragments) = encoded(&code, 129);
    let checksums: Vec<u32> = fragments.iter().map(|fragment| checksum(fragment)).collect();
    let mut reconstructor = Reconstructor::new(code.clone(), 8);
    for victim in 0..5_u8 {
        for byte in 0..129 {
            let mut damaged: Vec<Option<Vec<u8>>> = fragments.iter().cloned().map(Some).collect();
            damaged[usize::from(victim)].as_mut().unwrap()[byte] ^= 1 << (byte % 8);
            let intact = code.intact(&damaged, &checksums).unwrap();
            assert_eq!(FragmentSet::first(5).without(&intact), [victim].into_iter().collect());
            let mut repaired: Vec<Vec<u8>> = damaged.into_iter().flatten().collect();
            reconstructor.reconstruct(&mut repaired, intact).unwrap();
            assert_eq!(repaired, fragments);
        }
    }
    let missing: Vec<Option<Vec<u8>>> = vec![None; 5];
    assert_eq!(code.intact(&missing, &checksums).unwrap(), FragmentSet::EMPTY);
}

#[test]
fn any_flipped_byte_of_a_dispersed_object_is_found_also_in_its_header() {
    for matrix in MATRICES {
        let dispersal = Dispersal::new(Code::new(2, 3, matrix).unwrap());
        let object = noise(5, 81);
        let fragments = dispersal.disperse(7, &object);
        for byte in 0..fragments[0].len() {
            let mut damaged = fragments.clone();
            damaged[1][byte] ^= 0x10;
            let collected = dispersal.collect(&damaged).unwrap();
            assert_eq!(collected.object, object);
            assert_eq!(collected.damaged.to_string(), "1");
            assert_eq!(collected.lost.to_string(), "1");
        }
        let mut damaged = fragments.clone();
        damaged[0].truncate(HEADER_BYTES - 1);
        damaged[2][HEADER_BYTES] ^= 1;
        assert_eq!(
            dispersal.collect(&damaged).unwrap_err().to_string(),
            "ida: fragments 0, 2 are lost, for the checksum failed at positions 0, 2; \
             1 of the 2 needed are left (1); provide 1 more"
        );
    }
}

#[test]
fn fragments_that_do_not_belong_together_are_refused() {
    let dispersal = Dispersal::new(Code::new(2, 4, Matrix::Cauchy).unwrap());
    let other = Dispersal::new(Code::new(2, 4, Matrix::Vandermonde).unwrap());
    let (first, second) = (dispersal.disperse(1, b"first"), dispersal.disperse(2, b"later"));
    let longer = dispersal.disperse(1, b"first!");
    let text = |fragments: &[&Vec<u8>]| dispersal.collect(fragments).unwrap_err().to_string();
    assert!(text(&[&first[0], &second[1]]).contains("[0] and fragments[1] differ in their object"));
    assert!(text(&[&first[0], &longer[1]]).contains("differ in their object_bytes"));
    let foreign = other.disperse(1, b"first");
    assert!(text(&[&first[0], &foreign[1]]).contains("fragments[1] is of another code, m = 2"));
    assert!(text(&vec![&first[0]; 257]).contains("holds 257 fragments"));
    assert!(text(&[]).starts_with("ida: fragments 0 to 3 are lost; 0 of the 2 needed"));
    assert!(text(&[&first[3], &first[3]]).starts_with("ida: fragments 0 to 2 are lost;"));
}

#[test]
fn objects_of_any_length_and_order_of_fragments_come_back() {
    for matrix in MATRICES {
        for (m, n) in [(1, 1), (1, 3), (3, 4), (4, 4), (5, 9)] {
            let dispersal = Dispersal::new(Code::new(m, n, matrix).unwrap());
            for length in [0, 1, m - 1, m, m + 1, 2048, 4096] {
                let object = noise(length as u64, length);
                let fragments = dispersal.disperse(u64::MAX, &object);
                let payload_bytes = dispersal.code().fragment_length(length);
                assert!(fragments.iter().all(|f| f.len() == HEADER_BYTES + payload_bytes));
                let last: Vec<&Vec<u8>> = fragments.iter().rev().take(m).collect();
                let collected = dispersal.collect(&last).unwrap();
                assert!(collected.object == object, "{m} of {n}, {length} bytes");
                assert_eq!(collected.lost, FragmentSet::first(n - m));
            }
        }
    }
}

#[test]
fn decoders_are_kept_until_others_push_them_out() {
    let code = Code::new(4, 6, Matrix::Cauchy).unwrap();
    let (data, fragments) = encoded(&code, 16);
    let mut reconstructor = Reconstructor::new(code, 3);
    for round in 0..20_u8 {
        let present = (0..6).filter(|&number| number != round % 6).collect();
        check_recovery(&mut reconstructor, &data, &fragments, present);
        assert_eq!(reconstructor.kept_count(), usize::from(round + 1).min(3));
        reconstructor.audit();
    }
}

#[test]
fn a_kept_decoder_reads_the_fragments_that_are_present() {
    let mut reconstructor = Reconstructor::new(Code::new(4, 6, Matrix::Cauchy).unwrap(), 8);
    for present in [[1, 2, 3, 4], [2, 3, 4, 5], [1, 3, 4, 5], [1, 2, 3, 4]] {
        let (from, lost) = (present.into_iter().collect(), std::iter::once(0).collect());
        let decoder = reconstructor.rebuilder(from, lost).unwrap();
        assert_eq!((decoder.sources(), decoder.outputs()), (&present[..], &[0][..]));
    }
    assert_eq!(reconstructor.kept_count(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_m_of_n_fragments_decode(
        (n, m) in (9_usize..=255).prop_flat_map(|n| (Just(n), 1..=n.min(60))),
        vandermonde: bool,
        order in Just((0..=254_u8).collect::<Vec<_>>()).prop_shuffle(),
        spare in 0..3_usize,
        length in 0..200_usize,
    ) {
        let matrix = if vandermonde { Matrix::Vandermonde } else { Matrix::Cauchy };
        let code = Code::new(m, n, matrix).unwrap();
        let (data, fragments) = encoded(&code, length);
        let members = order.into_iter().filter(|&number| usize::from(number) < n);
        let present = members.take(m + spare).collect();
        check_recovery(&mut Reconstructor::new(code, 2), &data, &fragments, present);
    }

    #[test]
    fn all_kernels_write_the_same_fragments(
        m in 1..70_usize, spare in 0..12_usize, length in 0..20_000_usize,
    ) {
        let scalar = Code::new(m, m + spare, Matrix::Cauchy).unwrap();
        let scalar = scalar.with_kernel(Kernel::Scalar).unwrap();
        let (_, expected) = encoded(&scalar, length);
        for kernel in Kernel::available() {
            let (_, fragments) = encoded(&scalar.clone().with_kernel(kernel).unwrap(), length);
            prop_assert!(fragments == expected, "{:?}", kernel);
        }
    }

    #[test]
    fn an_update_is_as_good_as_encoding_anew(
        m in 1..10_usize,
        spare in 0..6_usize,
        vandermonde: bool,
        changed: prop::sample::Index,
        range in (0..9000_usize, 0..9000_usize),
    ) {
        let matrix = if vandermonde { Matrix::Vandermonde } else { Matrix::Cauchy };
        let code = Code::new(m, m + spare, matrix).unwrap();
        let (mut data, mut fragments) = encoded(&code, 9000);
        let (start, end) = (range.0.min(range.1), range.0.max(range.1));
        let changed = changed.index(m);
        let old = data[changed][start..end].to_vec();
        let new = noise(77, end - start);
        let delta: Vec<u8> = old.iter().zip(&new).map(|(old, new)| old ^ new).collect();
        data[changed][start..end].copy_from_slice(&new);

        let coded = code.coded_fragments();
        let mut apart = fragments.clone();
        for fragment in coded.clone() {
            let part = &mut apart[fragment][start..end];
            code.update_fragment(fragment, changed, &delta, part).unwrap();
        }
        code.update(changed, start, &old, &new, &mut fragments[coded.clone()]).unwrap();
        let mut expected = vec![vec![0; 9000]; coded.len()];
        code.encode(&data, &mut expected).unwrap();
        prop_assert!(fragments[coded.clone()] == expected);
        prop_assert!(apart[coded] == expected);
    }

    #[test]
    fn encoding_is_linear(m in 1..12_usize, spare in 1..6_usize, length in 0..300_usize) {
        let code = Code::new(m, m + spare, Matrix::Vandermonde).unwrap();
        let (data, fragments) = encoded(&code, length);
        let (shifted, _) = encoded(&Code::new(m, m, Matrix::Cauchy).unwrap(), length);
        let sum: Vec<Vec<u8>> = data.iter().zip(shifted.iter().rev())
            .map(|(left, right)| left.iter().zip(right).map(|(a, b)| a ^ b).collect())
            .collect();
        let reversed: Vec<Vec<u8>> = shifted.iter().rev().cloned().collect();
        let mut of_sum = vec![vec![0; length]; m + spare];
        let mut of_reversed = of_sum.clone();
        code.encode(&sum, &mut of_sum).unwrap();
        code.encode(&reversed, &mut of_reversed).unwrap();
        for (index, fragment) in fragments.iter().enumerate() {
            let pairs = fragment.iter().zip(&of_reversed[index]);
            prop_assert!(pairs.map(|(a, b)| a ^ b).eq(of_sum[index].iter().copied()));
        }
    }

    #[test]
    fn no_fragment_makes_a_collection_panic(
        fields in prop::collection::vec((0..4_u8, 0..4_u8, 0..3_u8, 0..5_u8, any::<u8>()), 0..6),
        object_bytes in prop_oneof![0..40_u64, any::<u64>()],
        payload_bytes in 0..20_usize,
        cut in 0..60_usize,
    ) {
        let dispersal = Dispersal::new(Code::new(2, 3, Matrix::Cauchy).unwrap());
        let whole = dispersal.disperse(0, b"");
        let sealed: Vec<Vec<u8>> = fields.iter().map(|&(m, n, matrix, fragment, fill)| {
            let mut checked = whole[0][..32].to_vec();
            checked[8..12].copy_from_slice(&[m, n, matrix, fragment]);
            checked[24..32].copy_from_slice(&object_bytes.to_le_bytes());
            let payload = vec![fill; payload_bytes];
            let sum = checksum(&[&checked[..], &payload].concat()).to_le_bytes();
            let mut bytes = [&checked[..], &sum, &payload].concat();
            if fill % 8 == 0 {
                bytes.truncate(cut);
            }
            bytes
        }).collect();
        // Fragments that were never coded may collect to nonsense, as long as they fit together.
        if let Ok(collected) = dispersal.collect(&sealed) {
            prop_assert_eq!(collected.object.len() as u64, object_bytes);
            prop_assert!(collected.lost.count() <= 1);
        }
    }
}
